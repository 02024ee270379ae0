"""Two trainings in one folder: the second is refused while the first lives."""

import errno
import fcntl
import json
import os
import platform
import subprocess
import sys

import pytest

from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.lock import lock
from vit_jax.training.train import train_and_evaluate

HOLDER = """
import sys
from vit_jax.runs.folder import RunFolder
with RunFolder(sys.argv[1]).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of tmp_path."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


@pytest.mark.slow
def test_a_second_training_is_refused_until_the_first_is_dead(
    holder, tiny_config, tmp_path
):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError) as refusal:
        train_and_evaluate(tiny_config(), tmp_path)
    for words in (str(tmp_path), f"process {holder.pid} on {platform.node()} since 20"):
        assert words in str(refusal.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert json.loads((tmp_path / "lock.json").read_text())["process"] == holder.pid
    holder.kill()
    holder.wait(timeout=60)
    with RunFolder(tmp_path).locked():
        owner = json.loads((tmp_path / "lock.json").read_text())
    assert owner["process"] == os.getpid() and owner["host"] == platform.node()


def test_one_process_locks_again_and_again_but_not_twice_at_once(tmp_path):
    folder = RunFolder(tmp_path / "run")
    for _ in range(2):
        with folder.locked(), pytest.raises(UserError, match=f"process {os.getpid()}"):
            folder.locked().__enter__()


def test_an_owner_who_has_not_signed_yet_is_another_process(tmp_path):
    path = tmp_path / "lock.json"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="in use by another process"):
            lock(path).__enter__()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_warned_of(tmp_path, monkeypatch, number):
    def refuse(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match="cannot be locked"), lock(tmp_path / "l.json"):
        pass
