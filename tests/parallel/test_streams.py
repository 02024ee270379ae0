"""Standard streams that are closed, full or gone: real processes, real streams."""

import os
import pty
import subprocess
import sys

import pytest

from tests.parallel.running import run_code

TRAINING = (
    f"exec {sys.executable} -m vit_jax.main --config=vit_digits --workdir={{}} "
    "--config.num_steps=4 --config.model.depth=1 --config.model.width=16 "
    "--config.log_every='2 steps' --config.schedule.warmup='1 steps' "
    "--config.augment.crop=none"
)
PRINTS = """
import sys
from vit_jax.parallel.commands import run_command
def main(arguments):
    opened = open(arguments[0], "w+")
    print("a result"), print("a remark", file=sys.stderr)
    sys.stdout.flush()
    assert opened.read() == ""
    print("more")
run_command(main)
"""


@pytest.mark.parametrize(
    "redirection, status",
    [
        (">&-", 0),
        ("2>&-", 0),
        ("<&- >&- 2>&-", 0),
        (">/dev/full", 1),
        ("2>/dev/full", 0),
    ],
)
def test_a_stream_that_fails_changes_no_file_and_no_status(
    redirection, status, tmp_path
):
    command = f"exec {sys.executable} -c '{PRINTS}' {tmp_path}/file {redirection}"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert result.returncode == status
    assert (tmp_path / "file").read_text() == ""
    if status:
        assert result.stderr.startswith("a remark\nerror: Standard output cannot be")
        assert result.stderr.count("\n") == 2


def test_what_an_encoding_lacks_is_escaped():
    code = PRINTS.replace("a result", "█ {name}").replace("arguments[0]", "'/dev/null'")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = run_code(code.replace("{name}", "\\udcff\\x1b[2J"), env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "\\u2588 \\udcff\\x1b[2J\nmore\n"


@pytest.mark.slow
def test_training_without_streams_ends_with_its_results(tmp_path):
    command = f"{TRAINING.format(tmp_path / 'run')} >&- 2>/dev/full"
    assert subprocess.run(["sh", "-c", command], timeout=300).returncode == 0
    assert (tmp_path / "run" / "results.json").exists()


@pytest.mark.slow
def test_training_goes_on_when_its_terminal_goes_away(tmp_path):
    terminal, inside = pty.openpty()
    # A session of its own, which the training leads.
    command = ["setsid", "--ctty", "sh", "-c", TRAINING.format(tmp_path / "run")]
    process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside)
    os.close(inside)
    while b"device" not in os.read(terminal, 4096):
        pass
    os.close(terminal)  # the kernel sends SIGHUP, and writing fails from here on
    assert process.wait(300) == 0
    assert (tmp_path / "run" / "results.json").exists()
