"""Progress on a real terminal and in lines."""

import fcntl
import os
import struct
import subprocess
import sys
import termios
import time
import types

from vit_jax.training.progress import Progress, waiting


def test_progress_shows_step_loss_speed_and_time_left(capsys):
    progress = Progress(total_steps=10, first_step=4)
    progress.update(5)
    progress.metrics(
        {"step": 5, "loss": 1.25, "accuracy": 0.5, "images_per_second": 1234.5}
    )
    progress.close()
    line = capsys.readouterr().err
    assert line.startswith("step 5/10: loss 1.2500, accuracy 50.0%, 1,23")
    assert line.endswith("left\n")


def test_a_bar_on_a_real_terminal():
    code = (
        "from vit_jax.training.progress import Progress\n"
        "p = Progress(3)\n"
        "p.update(3)\n"
        "p.metrics(dict(step=3, loss=1, accuracy=.5, images_per_second=9))\n"
        "p.line('epoch 1: fine')\n"
        "p.close()\n"
    )
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(controller, 4096)
        except OSError:  # Linux's end of a pseudo-terminal
            break
        if not part:
            break
        shown += part
    os.close(controller)
    assert process.wait(timeout=60) == 0
    assert b"3/3" in shown and b"step/s" in shown and b"loss 1.0000" in shown
    assert b"epoch 1: fine" in shown


VALUES = {"loss": 1.0, "accuracy": 0.5, "images_per_second": 100.0}


def test_the_rest_of_an_interval_has_no_line_of_its_own(capsys):
    progress = Progress(total_steps=100, log_every=20)
    for step in (20, 39, 40, 60, 78, 80):
        progress.metrics({"step": step, **VALUES})
    lines = capsys.readouterr().err.splitlines()
    shown = [line.split(":")[0] for line in lines]
    assert shown == ["step 20/100", "step 39/100", "step 60/100", "step 78/100"]


def test_a_slow_start_does_not_count_in_the_time_left(capsys, monkeypatch):
    now = iter((0.0, 60.0, 61.0))  # the start, and two lines
    # Threads of other tests go on reading the real clock.
    clock = types.SimpleNamespace(monotonic=lambda: next(now))
    monkeypatch.setattr("vit_jax.training.progress.time", clock)
    progress = Progress(total_steps=30)
    progress.metrics({"step": 10, **VALUES})
    progress.metrics({"step": 20, **VALUES})
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("02:00 left") and second.endswith("00:01 left")


def test_waiting_is_said_once_and_counted_on_a_screen(capsys, monkeypatch):
    with waiting("compiling"):
        pass
    assert capsys.readouterr() == ("compiling ...\n", "")
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with waiting("compiling"):
        time.sleep(1.5)
    out, err = capsys.readouterr()
    assert out == "compiling ...\n" and "compiling: 1 s" in err


def test_a_notebook_has_a_bar(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    progress = Progress(total_steps=10)
    progress.update(5)
    progress.close()
    assert "5/10" in capsys.readouterr().err
