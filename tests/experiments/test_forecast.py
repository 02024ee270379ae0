"""Forecasts: what they count, and that our programs do not grow."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import pytest

from experiments.forecasting import budget, hlo, programs, targets, work
from vit_jax.config import apply_overrides, load_config_file
from vit_jax.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
# For each version of JAX, of each case: kernels and gigabytes of a train step.
TABLE = pathlib.Path(__file__).with_name("forecast_table.json")
CASES = {
    "vit_digits": ["--config=configs/vit_digits.py", "--config.model.depth=1"],
    "vit_cifar": ["--config=configs/vit_cifar.py", "--config.model.depth=1"],
    "resnet_cifar": ["--config=configs/resnet_cifar.py:fast"],
}

PROGRAM = """\
HloModule jit_train_steps, is_scheduled=true

%product (p.0: bf16[128,64], p.1: bf16[64,32]) -> bf16[128,32] {
  %p.0 = bf16[128,64]{1,0} parameter(0)
  %p.1 = bf16[64,32]{1,0} parameter(1)
  ROOT %dot.1 = bf16[128,32]{1,0} dot(%p.0, %p.1), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}
}

%pick (p.2: u8[1000,64], p.3: s32[]) -> f32[1,64] {
  %p.2 = u8[1000,64]{1,0} parameter(0)
  %p.3 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %slice.1 = u8[1,64]{1,0} dynamic-slice(%p.2, %p.3, %zero), \
dynamic_slice_sizes={1,64}
  ROOT %convert.1 = f32[1,64]{1,0} convert(%slice.1)
}

%bits (p.4: u32[4096]) -> u32[4096] {
  %p.4 = u32[4096]{0} parameter(0)
  %shift.1 = u32[4096]{0} shift-left(%p.4, %p.4)
  ROOT %xor.1 = u32[4096]{0} xor(%shift.1, %p.4)
}

%body (state: (s32[], bf16[128,64], bf16[64,32])) -> (s32[], bf16[128,64]) {
  %state = (s32[], bf16[128,64]{1,0}, /*index=2*/bf16[64,32]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = bf16[128,64]{1,0} get-tuple-element(%state), index=1
  %w = bf16[64,32]{1,0} get-tuple-element(%state), index=2
  %fusion.1 = bf16[128,32]{1,0} fusion(%x, %w), kind=kCustom, calls=%product, \
metadata={op_name="jit(f)/while/body/jvp(ViT)/block0/mlp/hidden/dot_general"}
  %conv.1 = (f32[8,16,16,32]{3,2,1,0}, u8[0]{0}) custom-call(%images, %filter), \
window={size=3x3 stride=2x2}, dim_labels=b01f_o01i->b01f, \
custom_call_target="__cudnn$convForward", metadata={op_name="jit(f)/stem"}
  %images = f32[8,32,32,3]{3,2,1,0} constant({...})
  %filter = f32[32,3,3,3]{3,2,1,0} constant({...})
  ROOT %done = (s32[], bf16[128,64]{1,0}) tuple(%i, %x)
}

ENTRY %main (data: u8[1000,64], i.1: s32[], u.1: u32[4096]) -> f32[1,64] {
  %data = u8[1000,64]{1,0} parameter(0)
  %i.1 = s32[] parameter(1)
  %u.1 = u32[4096]{0} parameter(2)
  %start = (s32[], bf16[128,64]{1,0}, bf16[64,32]{1,0}) tuple(%i.1)
  %loop = (s32[], bf16[128,64]{1,0}) while(%start), condition=%condition, \
body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %fusion.2 = u32[4096]{0} fusion(%u.1), kind=kLoop, calls=%bits, \
metadata={op_name="jit(f)/jvp(ViT)/Dropout_0/xor"}
  ROOT %fusion.3 = f32[1,64]{1,0} fusion(%data, %i.1), kind=kLoop, calls=%pick, \
metadata={op_name="jit(f)/optimizer/convert"}
}
"""


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("vit_s8_finetune", []),
        ("vit_digits", ["--config.linear_probe=True"]),
        ("vit_digits", ["--config.distill.teacher=runs/teacher"]),
    ],
)
def test_what_one_forecast_does_not_cover_is_refused(name, changes):
    config = apply_overrides(load_config_file(name), changes)
    with pytest.raises(UserError, match="of one stage, without a teacher"):
        programs.make_described(config, None)


def by_name():
    found = hlo.kernels(hlo.parse(PROGRAM))
    return {kernel.instruction.name: kernel for kernel in found}


def test_kernels_are_those_that_are_launched():
    times = {name: kernel.times for name, kernel in by_name().items()}
    assert times == {"%fusion.1": 5, "%conv.1": 5, "%fusion.2": 1, "%fusion.3": 1}


def test_bytes_and_operations_by_hand():
    kernels = by_name()
    product = work.work(kernels["%fusion.1"])
    assert product.product_flops == {"bf16": 2 * 128 * 32 * 64}
    moved = hlo.moved_bytes(kernels["%fusion.1"])
    assert moved == 2 * (128 * 64 + 64 * 32 + 128 * 32)
    convolution = work.work(kernels["%conv.1"])
    assert convolution.product_flops == {"f32": 2 * 8 * 16 * 16 * 32 * 3 * 3 * 3}
    # One row of a thousand is read, and the index.
    assert hlo.moved_bytes(kernels["%fusion.3"]) == 64 + 4 + 4 * 64
    bits = work.work(kernels["%fusion.2"])
    # A shift is a part of a rotation; integers have half the lanes.
    assert bits.scalar_ops == bits.random_ops == 2 * 4096


def test_each_kernel_has_a_kind_and_a_time():
    target = targets.load_target("h200")
    costs = budget.costs(PROGRAM)
    assert [cost.kind for cost in costs] == [
        "products", "convolution", "random bits", "optimizer"
    ]  # fmt: skip
    table = budget.summarise(costs, target, num_steps=5)
    assert table["all"]["kernels"] == pytest.approx(12 / 5)
    assert table["convolution"]["gigabytes"] == pytest.approx(
        4 * (8 * 32 * 32 * 3 + 32 * 27 + 8 * 16 * 16 * 32) / 1e9
    )
    # A small kernel takes as long as its launch, and little more.
    times = budget.milliseconds(costs, target)
    assert 0.006 < times["floor"] < times["expected"] < times["pessimistic"] < 0.1
    assert times["expected"] == pytest.approx(
        sum(row["expected_ms"] for kind, row in table.items() if kind != "all") * 5
    )
    assert list(budget.wide_products(costs)) == ["jit(f)/stem"]
    assert budget.host_callbacks(PROGRAM) == 0
    call = 'custom-call(), custom_call_target="xla_ffi_python_gpu_callback"'
    assert budget.host_callbacks(call) == 1


def test_a_slower_gpu_takes_longer():
    costs = budget.costs(PROGRAM.replace("4096", "40960000"))
    times = {
        name: budget.milliseconds(costs, targets.load_target(name))["expected"]
        for name in targets.target_names()
    }
    assert sorted(times, key=times.get) == [
        "h200", "h100", "a100", "rtx4090", "t4"
    ]  # fmt: skip


def test_a_target_that_has_no_file_is_refused():
    with pytest.raises(UserError, match='did you mean "h200"'):
        targets.load_target("h20")


def run_python(*arguments):
    """What Python prints with these arguments, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, capture_output=True, text=True, env=environment, timeout=3000,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


needs_compiler = pytest.mark.skipif(
    not targets.can_compile(), reason="needs pip install -e '.[forecast]'"
)


@pytest.mark.slow
@needs_compiler
def test_a_forecast_of_a_small_config(tmp_path):
    arguments = [*CASES["vit_digits"], f"--out={tmp_path}"]
    printed = run_python("-m", "experiments.forecast", *arguments)
    assert printed.strip() == (tmp_path / "forecast.md").read_text().strip()
    result = json.loads((tmp_path / "forecast.json").read_text())
    step, kinds = result["step_ms"], result["train"]["kinds"]
    assert 0 < step["floor"] < step["expected"] < step["pessimistic"]
    assert step["expected"] == pytest.approx(kinds["all"]["expected_ms"])
    for kind in ("products", "attention", "optimizer", "augmentation", "random bits"):
        assert kinds[kind]["kernels"] > 0, kind
    assert kinds["convolution"]["kernels"] == 2  # the embedding of patches
    assert result["train"]["host_callbacks"] == 0
    assert result["fits"] and result["peak_gigabytes"] < 1
    size, dispatches = result["train"]["num_steps"], result["dispatches"]
    assert size * (dispatches - 1) < result["steps"] <= size * dispatches
    # Training has more to do than an evaluation.
    assert result["evaluate"]["ms"]["expected"] < step["expected"]
    assert_as_small_as_in_the_table("vit_digits", kinds["all"])


@pytest.mark.slow
@needs_compiler
def test_fused_attention_of_65_tokens_is_divided_over_two_gpus():
    """Each GPU has half of the batch, and of the lengths that mask the padding."""
    compiled = run_python(
        "-c",
        "from experiments.forecasting import targets\n"
        "targets.set_environment()\n"
        "import jax, jax.numpy as jnp\n"
        "from experiments.forecasting import programs\n"
        "from vit_jax.models.attention import attend_to_even_number\n"
        "from vit_jax.parallel import mesh as meshes\n"
        "devices = targets.describe_devices(targets.load_target('h200'), 2)\n"
        "mesh = meshes.make_mesh(among=devices)\n"
        "split = meshes.split_batch(mesh)\n"
        "x = jax.ShapeDtypeStruct((64, 65, 3, 64), jnp.bfloat16, sharding=split)\n"
        "def loss(*inputs):\n"
        "    mixed = attend_to_even_number(*inputs, 'cudnn')[:, :65]\n"
        "    return mixed.astype(jnp.float32).sum()\n"
        "with programs.computing_for(devices[0]):\n"
        "    lowered = jax.jit(jax.grad(loss, (0, 1, 2))).lower(x, x, x)\n"
        "    print(lowered.compile().as_text())\n",
    )
    calls = [line for line in compiled.splitlines() if "__cudnn$fmha" in line]
    assert len(calls) == 2 and all("bf16[32,3,66,64]" in line for line in calls)
    assert "all-gather" not in compiled


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", ["vit_cifar", "resnet_cifar"])
def test_programs_do_not_grow(name):
    assert_as_small_as_in_the_table(name, measure(name))


def assert_as_small_as_in_the_table(name, found):
    """A change that is meant is written with `python tests/experiments/FILE`."""
    table = json.loads(TABLE.read_text()).get(jax.__version__, {})
    if name not in table:
        pytest.skip(f"the table has no row of {name} for JAX {jax.__version__}")
    for key, expected in table[name].items():
        assert found[key] == pytest.approx(expected, rel=0.05), (name, key)


def measure(name):
    """Kernels and gigabytes of a train step, by a process of its own."""
    code = (
        "import json, sys\n"
        "from experiments.forecasting import targets\n"
        "targets.set_environment()\n"
        "from experiments.forecasting import budget, programs\n"
        "from vit_jax.config import apply_overrides, load_config_file\n"
        "path, *overrides = sys.argv[1:]\n"
        "config = load_config_file(path.removeprefix('--config='))\n"
        "target = targets.load_target('h200')\n"
        "(device,) = targets.describe_devices(target)\n"
        "config = apply_overrides(config, overrides)\n"
        "experiment = programs.make_described(config, device)\n"
        "program = programs.compile_training(experiment)\n"
        "costs = budget.costs(program.text)\n"
        "rows = budget.summarise(costs, target, program.num_steps)\n"
        "print(json.dumps(rows['all']))\n"
    )
    row = json.loads(run_python("-c", code, *CASES[name]).splitlines()[-1])
    return {key: round(row[key], 4) for key in ("kernels", "gigabytes")}


if __name__ == "__main__":
    written = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    for case in sys.argv[1:] or CASES:
        written.setdefault(jax.__version__, {})[case] = measure(case)
        TABLE.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
