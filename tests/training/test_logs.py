"""The records that training writes, and the time that they count."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.runs.folder import RunFolder
from vit_jax.training.logs import TrainClock, TrainLog
from vit_jax.training.progress import Progress


def test_metrics_lines(tiny_run):
    workdir, results = tiny_run
    records = RunFolder(workdir).read_metrics()
    steps = [(r["split"], r["step"]) for r in records]
    assert steps == [
        ("train", 2), ("train", 3), ("val", 3), ("train", 4), ("train", 6), ("val", 6)
    ]  # fmt: skip
    for record in records:
        assert {"epoch", "loss", "accuracy", "seconds"} <= record.keys()
        if record["split"] == "train":
            seconds = record["step_seconds"]
            assert record["images_per_second"] == pytest.approx(16 / seconds)
            assert record["epoch_seconds"] == pytest.approx(1288 / 16 * seconds)
    best = [r for r in records if r["split"] == "val"][
        -1 if results["best_step"] == 6 else 0
    ]
    assert best["accuracy"] == results["val"]["accuracy"]
    assert best["loss"] == results["val"]["loss"]


def busy(seconds):
    """Takes this much time, on the wall and of the processor."""
    for clock in (time.monotonic, time.process_time):
        end = clock() + seconds
        while clock() < end:
            pass


def test_laps_are_counted_and_what_resume_ends_is_not():
    # Threads of earlier tests may take processor time, too, so that it has no bound.
    cpu_start = time.process_time()
    clock = TrainClock(seconds=10.0, cpu_seconds=20.0)
    busy(0.05)
    lap = clock.lap()
    cpu_seconds = time.process_time() - cpu_start
    assert 0.05 <= clock.cpu_seconds - 20 <= cpu_seconds
    busy(0.05)
    clock.resume()
    assert lap >= 0.05 and clock.seconds == pytest.approx(10 + lap)
    assert clock.cpu_seconds - 20 <= cpu_seconds


def test_waiting_is_no_processor_time():
    cpu_start = time.process_time()
    clock = TrainClock()
    time.sleep(0.1)
    clock.lap()
    times = clock.times()
    assert times["seconds"] >= 0.1
    assert times["cpu_seconds"] <= time.process_time() - cpu_start


def test_a_gpus_run_has_no_processor_time(monkeypatch):
    monkeypatch.setattr("vit_jax.models.backend.platform", lambda: "gpu")
    clock = TrainClock()
    busy(0.01)
    clock.lap()
    assert clock.cpu_seconds is None and set(clock.times()) == {"seconds"}
    monkeypatch.undo()
    clock.lap()
    assert clock.cpu_seconds is None, "a CPU has computed a part only"


def test_an_interval_lasts_from_its_first_step_to_its_last(tmp_path):
    """Also where a call that launches a dispatch returns when the dispatch has ended.

    An interval then often has another number of dispatches than the one before it, and
    the main thread notices its end a dispatch later.
    """
    folder = RunFolder(tmp_path)
    folder.create()
    zeros = jax.block_until_ready(jnp.zeros(4))
    metrics = dict.fromkeys(("loss", "grad_norm", "learning_rate"), zeros)
    marks = [time.monotonic()]
    clock = TrainClock()
    log = TrainLog(
        folder, Progress(36, 0), batch_size=8, steps_per_epoch=10.0, clock=clock
    )
    for i in range(9):
        time.sleep(0.1)
        log.add(4 * (i + 1), 4, metrics)
        if i % 3 != 0:  # of two dispatches and of one, by turns
            marks.append(time.monotonic())
            log.end_interval()
    log.drain()
    records = folder.read_metrics()
    assert [r["step"] for r in records] == [8, 12, 20, 24, 32, 36]
    lasted = np.diff(marks) / (8, 4, 8, 4, 8, 4)
    # A dispatch later it would be half as many again, or twice as many.
    np.testing.assert_allclose([r["step_seconds"] for r in records], lasted, rtol=0.4)
    assert 9 * 0.1 <= clock.seconds <= time.monotonic() - marks[0]


def test_two_dispatches_wait_for_the_device_and_no_more(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.create()
    names = ("loss", "grad_norm", "learning_rate")
    launched = [{name: jnp.zeros(1) for name in names} for _ in range(9)]
    log = TrainLog(
        folder, Progress(9, 0), batch_size=8, steps_per_epoch=10.0, clock=TrainClock()
    )
    ready = []
    monkeypatch.setattr(jax, "block_until_ready", ready.append)
    for i, metrics in enumerate(launched):
        log.add(i + 1, 1, metrics)
        if i >= 2:
            assert any(one is launched[i - 2] for one in ready)
        if i % 4 == 3:
            log.end_interval()
    log.drain()


def test_tensorboard_leaves_out_what_is_not_known(tmp_path):
    from tensorboardX import SummaryWriter

    folder = RunFolder(tmp_path)
    folder.create()
    log = TrainLog(
        folder, Progress(4, 0), batch_size=2, steps_per_epoch=1.0,
        clock=TrainClock(), tensorboard=SummaryWriter(str(tmp_path / "tensorboard")),
    )  # fmt: skip
    # As of a masked autoencoder.
    scores = {"accuracy": None, "loss": 0.5}
    log.record({"step": 1, "split": "val", **scores, "seconds": 1.0})
    log.close()  # It writes what the file does not have yet.
    (record,) = folder.read_metrics()
    assert record["accuracy"] is None and record["loss"] == 0.5
    (file,) = (tmp_path / "tensorboard").glob("events.out.tfevents.*")
    assert b"val/loss" in file.read_bytes() and b"accuracy" not in file.read_bytes()
