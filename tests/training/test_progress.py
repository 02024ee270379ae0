"""Progress on a real terminal and in lines."""

import fcntl
import os
import struct
import subprocess
import sys
import termios

from vit_jax.training.progress import Progress


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
