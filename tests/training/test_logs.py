"""The records that training writes."""

import pytest

from vit_jax.runs.folder import RunFolder


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
            assert record["epoch_seconds"] == pytest.approx(1338 / 16 * seconds)
    best = [r for r in records if r["split"] == "val"][
        -1 if results["best_step"] == 6 else 0
    ]
    assert best["accuracy"] == results["val"]["accuracy"]
    assert best["loss"] == results["val"]["loss"]
