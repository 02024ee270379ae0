"""The training command: runs, and the messages for mistakes."""

import json
import struct
import subprocess
import sys

import pytest
from tensorboardX.proto import event_pb2

from tests.parallel.running import run_code

SMALL = [
    "--config.num_steps=4", "--config.model.depth=1", "--config.model.width=16",
    "--config.log_every=2 steps", "--config.schedule.warmup=1 steps",
    "--config.augment.crop=none",
]  # fmt: skip


def run_main(*arguments, prelude=""):
    code = f"{prelude}\nfrom vit_jax.parallel.commands import run_command\n" + (
        "from vit_jax.main import main\nrun_command(main)"
    )
    return run_code(code, *arguments)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "--config is missing"),
        (["--config=configs/vit_digits.py"], "--workdir is missing"),
        (["--config=configs/vit_digit.py", "--workdir=w"], "vit_digits.py"),
        (["--config=configs/vit_digits.py", "--wokdir=w"], '"--workdir"'),
        (["--flagfile=flags.txt", "--workdir=w"], "write the settings into a config"),
        (["--workdir=w", "--flagfile", "flags.txt"], "--flagfile is not supported"),
    ],
)
def test_mistakes_are_one_sentence_without_a_traceback(arguments, words):
    result = run_main(*arguments)
    assert result.returncode == 1
    assert result.stderr.startswith("error: ") and words in result.stderr
    assert result.stderr.count("\n") == 1 and not result.stdout


def test_overrides_may_precede_the_config_and_be_two_arguments(tmp_path):
    result = run_main(
        "--config.batch_size", "1e2", "--config.optim.weight_decay=0.1",
        "--config=vit_digits", "--config.optim.name=adam", f"--workdir={tmp_path}/run",
    )  # fmt: skip
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: config.optim.weight_decay is 0.1, but adam")
    assert not (tmp_path / "run").exists()


def test_help_is_short_and_helpfull_lists_the_keys():
    result = run_main("--help")
    assert result.returncode == 0 and "--workdir" in result.stdout
    assert "optim.learning_rate" not in result.stdout and "--helpfull" in result.stdout
    result = run_main("--helpfull")
    assert result.returncode == 0 and "Peak of the learning rate." in result.stdout


def test_the_keys_are_listed_and_a_closed_pipe_is_no_error():
    result = run_main("--list_keys")
    assert result.returncode == 0 and "optim.learning_rate = 0.001" in result.stdout
    # A real pipe, whose reader ends after one line.
    command = f"{sys.executable} -m vit_jax.main --list_keys | head -1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True
    )
    assert result.returncode == 0 and not result.stderr
    assert result.stdout.startswith("seed = 0")


@pytest.mark.slow
def test_the_digits_job_without_tensorflow_and_without_a_terminal(tmp_path):
    prelude = "import sys; sys.modules['tensorflow'] = None"
    result = run_main(
        "--config=configs/vit_digits.py",
        f"--workdir={tmp_path}/run",
        *SMALL,
        "--config.tensorboard=true",
        prelude=prelude,
    )
    assert result.returncode == 0, result.stderr
    for words in (
        "loading digits", "device  1 x cpu", "data  digits, 8x8x1", "parameters",
        "GFLOPs", "4 steps of 64", "compiling the train step", "waiting for the first",
    ):  # fmt: skip
        assert words in result.stdout
    assert "test accuracy" in result.stdout and "359 images" in result.stdout
    assert "step 2/4: loss" in result.stderr and "images/s" in result.stderr
    assert "\r" not in result.stderr and "Traceback" not in result.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["test"]["num_examples"] == 359
    assert results["device"] == "cpu" and results["num_steps"] == 4
    check_tensorboard_file(tmp_path / "run")


def check_tensorboard_file(run):
    (file,) = (run / "tensorboard").glob("events.out.tfevents.*")
    found, content = {}, file.read_bytes()
    while content:  # of TFRecords: 8 bytes of length, 4 of checksum, the data, 4 more
        (length,) = struct.unpack_from("<Q", content)
        event = event_pb2.Event.FromString(content[12 : 12 + length])
        found |= {(v.tag, event.step): v.simple_value for v in event.summary.value}
        content = content[16 + length :]
    lines = (run / "metrics.jsonl").read_text().splitlines()
    for record in map(json.loads, lines):
        for name in ("loss", "accuracy"):
            key = f"{record['split']}/{name}", record["step"]
            assert found[key] == pytest.approx(record[name], rel=1e-6)
    assert ("train/loss", 4) in found and ("val/accuracy", 4) in found


@pytest.mark.slow
def test_a_closed_pipe_does_not_end_the_training(tmp_path):
    command = (
        f"{sys.executable} -m vit_jax.main --config=configs/vit_digits.py "
        f"--workdir={tmp_path} {' '.join(repr(s) for s in SMALL)} "
        "--config.parameter_overview=true 2>&1 | head -1; exit ${PIPESTATUS[0]}"
    )
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert result.stdout.count("\n") == 1
    assert result.returncode == 0
    assert (tmp_path / "results.json").exists()


def test_a_refused_config_leaves_no_folder(tmp_path):
    result = run_main(
        "--config=vit_digits",
        "--config.model.patch_size=3",
        f"--workdir={tmp_path}/run",
    )
    assert result.returncode == 1 and "patch_size is 3" in result.stderr
    assert not (tmp_path / "run").exists()


def test_the_first_line_does_not_wait_for_jax(tmp_path):
    result = run_main(
        "--config=vit_digits", f"--workdir={tmp_path}/run",
        prelude="import sys; sys.modules['jax'] = None",
    )  # fmt: skip
    assert result.stderr.startswith("error: The package jax is needed for this")
    assert result.stdout == f"starting vit_digits in {tmp_path}/run ...\n"


@pytest.mark.slow
def test_the_keys_of_a_config_have_its_values_and_those_of_its_model():
    found = run_main("--list_keys", "--config=vit_cifar", "--config.batch_size=64")
    lines = found.stdout.splitlines()
    assert "batch_size = 64  (default 128)" in lines
    assert "model.depth = 7  (default None)" in lines
    # The model's own value, which the config does not set.
    assert "model.norm_eps = 1e-06  (default None)" in lines
    assert "num_devices = 0" in lines
    found = run_main("--list_keys", "--config.model.name=resnet18")
    assert "model.name = 'resnet18'  (default 'vit')" in found.stdout
