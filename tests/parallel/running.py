"""Python processes that belong to one run."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from vit_jax.runs.folder import RunFolder


def outputs(processes, timeout=200):
    """(stdout, stderr) of each, once all have ended."""
    return [process.communicate(timeout=timeout) for process in processes]


def train_losses(workdir):
    """The loss of each interval of a training, by its last step."""
    records = RunFolder(workdir).read_metrics()
    return {r["step"]: r["loss"] for r in records if r["split"] == "train"}


def wait_for_step(workdir, step, process):
    """Returns when a line of metrics.jsonl has reached `step`."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        if any(r["step"] >= step for r in RunFolder(workdir).read_metrics()):
            return
        time.sleep(0.02)
    raise AssertionError(f"never reached step {step}: {process.communicate()}")


def run_code(code, *arguments, **options):
    """A Python process that has run `code`, with its output as text."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        **{"capture_output": True, "text": True, "timeout": 300} | options,
    )


def require_mount(folder):
    """Skips the test where a process may not mount a disk of its own at `folder`."""
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(folder)]
    if not shutil.which("unshare") or subprocess.run(probe).returncode:
        pytest.skip("needs the right to mount in a user namespace (unshare -rm)")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextlib.contextmanager
def running(count, *arguments):
    """`count` Python processes; "ADDRESS" and "ID" in the arguments are replaced."""
    address = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        processes = []
        for i in range(count):
            words = {"ADDRESS": address, "ID": str(i)}
            process = subprocess.Popen(
                [sys.executable, *(words.get(word, word) for word in arguments)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=os.environ | {"JAX_NUM_CPU_DEVICES": "2"},
            )  # fmt: skip
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        yield processes
