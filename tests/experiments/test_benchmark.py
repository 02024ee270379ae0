"""The benchmark's numbers agree with each other."""

import dataclasses
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import pytest

from experiments import benchmark
from experiments.benchmarking import (
    attention,
    augmentations,
    soak,
    startup,
    train_step,
)
from vit_jax import models
from vit_jax.config import default_config
from vit_jax.errors import UserError
from vit_jax.models.attention import SelfAttention
from vit_jax.models.block_settings import block_settings

ROOT = pathlib.Path(__file__).parents[2]
TINY = {"width": 16, "depth": 1, "num_heads": 2}


def run_benchmark(*arguments, status=0):
    command = [sys.executable, "-m", "experiments.benchmark", *arguments]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=500
    )
    assert result.returncode == status, result.stderr
    return result.stdout, result.stderr


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"norm_position": "post"}, "norm_position=post"),
        ({"drop_path": 0.1}, "drop_path"),
        ({"stem": "conv", "stem_downsampling": "stride"}, "without average pooling"),
    ],
)
def test_what_pytorch_would_compute_otherwise_is_refused(settings, words):
    config = default_config()
    train_step.require_counterpart(config, models.ViT(10, **TINY))
    with pytest.raises(UserError, match=words):
        train_step.require_counterpart(config, models.ViT(10, **TINY, **settings))
    with pytest.raises(UserError, match="of bottlenecks"):
        train_step.require_counterpart(config, models.ResNet(10, bottleneck=True))
    config.optim.trainable = "head"
    with pytest.raises(UserError, match=r"optim\.trainable"):
        train_step.require_counterpart(config, models.ResNet(10))
    config.data.resize = 64
    with pytest.raises(UserError, match=r"data\.resize"):
        train_step.require_counterpart(config, models.ResNet(10))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--attention", "--against=torch"], "leave it out beside --attention"),
        (["--torch_mode=eager"], "give both or neither"),
        (["--startup", "--config.batch_size=8"], "leave out --config.batch_size=8"),
        (["--attention", "--models=resnet18"], "none has attention"),
        (["--startup", "--models=resnet18"], "--models has no effect on --startup"),
        (["--soak", "--repeats=3"], "--repeats has no effect on --soak"),
        (["--out=setup.cfg"], "--out"),
    ],
)
def test_what_would_have_no_effect_is_refused(arguments, words):
    with pytest.raises(UserError, match=words):
        benchmark.main(arguments)


def test_a_soak_takes_what_only_other_models_would_refuse(monkeypatch):
    seen = []
    monkeypatch.setattr(benchmark.soak, "measure", lambda x: seen.append(x) or {})
    # The default list has a ResNet that is trained by SGD.
    assert benchmark.main(["--soak", "--config.optim.b2=0.95"]) == 0
    assert seen == [["--config.optim.b2=0.95"]]


@pytest.mark.slow
def test_benchmark_writes_numbers_that_agree(tmp_path):
    settings = [f"--config.model.{key}={value}" for key, value in TINY.items()]
    # Crops and flips are augmentation enough, and a policy compiles for seconds.
    settings.append("--config.augment.policy=none")
    # A ResNet has no heads; its failure does not stop the measurement of the ViT.
    printed, told = run_benchmark(
        "--models=resnet18,vit_192x9", "--batch_size=4", "--repeats=3",
        f"--out={tmp_path}", *settings, status=1,
    )  # fmt: skip
    assert "error: " in told and "resnet18 failed: exit status 1" in told
    (file,) = tmp_path.iterdir()
    result = json.loads(file.read_text())
    row = printed.splitlines()[-1]
    assert row.startswith("vit_192x9 ")
    assert f"{result['images_per_second']:.1f}" in row

    model = models.ViT(10, **TINY)
    assert result["flops_per_step"] == 4 * 6 * models.count_macs(model, (32, 32, 3))
    assert result["num_params"] == models.count_params(
        models.init_variables(model, jax.random.key(0), (32, 32, 3))
    )
    step = result["step_seconds"]["augmented"]
    assert len(step["values"]) == 3
    assert 0 < step["min"] <= step["quartiles"][0] <= step["median"] <= step["max"]
    assert result["images_per_second"] == pytest.approx(4 / step["median"])
    assert result["epoch_seconds"] == pytest.approx(50_000 / 4 * step["median"])
    assert result["utilisation"] == pytest.approx(
        result["flops_per_step"] / step["median"] / result["peak_flops_per_second"]
    )
    plain = result["step_seconds"]["jax"]["median"]
    assert result["augmentation_fraction"] == pytest.approx(1 - plain / step["median"])
    assert result["compile_seconds"] > 0
    assert result["peak_memory_bytes"] > result["temp_bytes"] > 0
    assert result["versions"]["jax"] == jax.__version__
    assert "--batch_size=4" in result["command"]
    assert str(ROOT) not in file.read_text()


@pytest.mark.parametrize(
    "mode", ["--batch_size=4", "--attention", "--augmentations", "--startup", "--soak"]
)
def test_a_slip_is_refused(mode):
    with pytest.raises(UserError, match=r"argument --confg\.model\.width=3;"):
        benchmark.main([mode, "--confg.model.width=3"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["--batch_size=4", "--soak"])
def test_ctrl_c_is_one_line_of_each_process(mode):
    """As from a terminal, which signals all processes of the command."""
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.benchmark", mode],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, process_group=0,
    )  # fmt: skip
    limit = time.monotonic() + 60
    while len(processes := members(process.pid)) < 2:
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.1)
    time.sleep(3)  # They have begun.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    for line in errors.splitlines():
        assert line == "interrupted (SIGINT); what was saved before is as it was"
    while members(process.pid):
        assert time.monotonic() < limit + 60, processes
        time.sleep(0.1)


def members(group):
    """The processes of a group that have not ended."""
    listed = subprocess.run(["ps", "-eo", "pgid=,pid=,stat="], stdout=subprocess.PIPE)
    rows = (line.split() for line in listed.stdout.decode().splitlines())
    return [pid for g, pid, state in rows if int(g) == group and state[0] != "Z"]


def test_a_comparison_without_pytorch_is_refused_before_it_measures(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="needs PyTorch"):
        benchmark.main(["--against=torch"])


@pytest.mark.slow
def test_augmentations_of_a_config_are_timed(monkeypatch, capsys):
    monkeypatch.setattr(augmentations, "AUGMENTATIONS", {"flip": {"crop": "none"}})
    settings = [f"--config.model.{key}={value}" for key, value in TINY.items()]
    settings.append("--config.augment.policy=none")
    result = augmentations.measure(["vit_192x9"], 4, 1, settings)
    costs = result["augment_seconds"]
    assert costs.keys() == {"flip", "as vit_192x9 is trained"}
    assert min(costs.values()) > 0 and result["step_seconds"]["vit_192x9"] > 0
    assert f"{1e3 * costs['flip']:.3f} ms" in capsys.readouterr().out


@pytest.mark.slow
def test_every_implementation_of_attention_is_timed_or_says_why_not(tmp_path):
    printed, _ = run_benchmark(
        "--attention", "--models=vit_192x9", "--batch_size=1", "--repeats=1",
        "--config.model.width=16", "--config.model.num_heads=2",
        "--config.model.depth=1", f"--out={tmp_path}",
    )  # fmt: skip
    (file,) = tmp_path.iterdir()
    result = json.loads(file.read_text())["models"]["vit_192x9"]
    assert result["shape"] == [1, 65, 16]
    for name in ("plain", "xla", "cudnn"):
        (line,) = (row for row in printed.splitlines() if f" {name} " in row)
        if "cannot run: " in line:
            assert result[name]["error"] in line
        else:
            assert f" {1e3 * result[name]['seconds']['median']:.3f} ms " in line
    assert " ms " in next(row for row in printed.splitlines() if " plain " in row)


@pytest.mark.slow
def test_the_layer_that_is_timed_is_the_models_own():
    model = models.ViT(10, **TINY)
    assert attention.num_tokens(model) == 65
    settings, tokens = block_settings(model), jax.numpy.ones((1, 65, 16))
    attention.make_run(SelfAttention(settings), tokens)()
    wrong = dataclasses.replace(settings, attention_implementation="no such thing")
    with pytest.raises(ValueError, match="no such thing"):
        attention.make_run(SelfAttention(wrong), tokens)()


def test_the_startup_is_timed(monkeypatch, capsys):
    calls = []

    def start(workdir, cache):
        calls.append((workdir.name, cache))
        return float(len(calls))

    monkeypatch.setattr(startup, "seconds_to_first_step", start)
    result = startup.measure(2)
    assert (result["cold_seconds"], result["warm_seconds"]) == (1.0, [2.0, 3.0])
    # A fresh run each time, and one cache, which the first start fills.
    assert len({run for run, _ in calls}) == 3 and len({c for _, c in calls}) == 1
    assert json.loads(capsys.readouterr().out)["cold_seconds"] == 1.0


@pytest.mark.slow
def test_a_soak_reads_what_a_real_process_holds(monkeypatch):
    held = soak.held_by(os.getpid())
    assert held["resident_bytes"] > held["allocated_bytes"] > 10**7
    assert held["threads"] >= 1 and held["open_files"] >= 3
    with open(os.devnull):
        assert soak.held_by(os.getpid())["open_files"] == held["open_files"] + 1
    assert soak.held_by(2**22 + 1) is None
    monkeypatch.setattr(soak, "SECONDS_BETWEEN_SAMPLES", 0.1)
    result = soak.measure(["--config.num_steps=400", "--config.log_every=10 steps"])
    steps = [sample["step"] for sample in result["samples"]]
    assert steps == sorted(steps) and steps[-1] > steps[0] > 0
    for name, medians in result["medians_of_quarters"].items():
        values = [sample[name] for sample in result["samples"]]
        assert min(values) <= min(medians) <= max(medians) <= max(values)
    # What was recorded of 90 s.
    file = ROOT / "experiments" / "benchmarks" / "soak" / "all.json"
    recorded = json.loads(file.read_text())["medians_of_quarters"]
    assert len(set(recorded["threads"])) == len(set(recorded["open_files"])) == 1
    with pytest.raises(UserError, match=r"ended with status 1: error: .*num_steps"):
        soak.measure(["--config.num_steps=none at all"])
