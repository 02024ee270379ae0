"""What is shown of a long run."""

import sys
import time

from vit_jax.training.progress import Progress, waiting

VALUES = {"loss": 1.0, "accuracy": 0.5, "images_per_second": 100.0}


def test_the_rest_of_an_interval_has_no_line_of_its_own(capsys):
    progress = Progress(total_steps=100, log_every=20)
    for step in (20, 39, 40, 60, 78, 80):
        progress.metrics({"step": step, **VALUES})
    lines = capsys.readouterr().err.splitlines()
    shown = [line.split(":")[0] for line in lines]
    assert shown == ["step 20/100", "step 39/100", "step 60/100", "step 78/100"]


def test_waiting_is_said_once_and_counted_on_a_screen(capsys, monkeypatch):
    with waiting("compiling"):
        pass
    assert capsys.readouterr() == ("compiling ...\n", "")
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with waiting("compiling"):
        time.sleep(1.2)
    out, err = capsys.readouterr()
    assert out == "compiling ...\n" and "compiling: 1 s" in err
