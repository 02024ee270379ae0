"""The studies' table: real small runs, and the arithmetic of its columns."""

import csv
import json
import re
import tarfile

import pytest

from experiments.reproduce import EXTRA_ROWS, ROWS, main, make_table
from vit_jax.config import load_config_file
from vit_jax.errors import UserError


def test_every_row_is_a_config():
    for config, reported in (ROWS | EXTRA_ROWS).values():
        assert load_config_file(config).num_epochs >= 20
        assert reported is None or 60 < reported < 95


def test_patterns(capsys, tmp_path):
    arguments = ["--only=vit_256x6*", "--seeds=1", "--protocols=val"]
    main([f"--out={tmp_path}", "--dry_run", *arguments])
    assert len(capsys.readouterr().out.splitlines()) == 7


def test_one_seed_of_everything_comes_first(capsys, tmp_path):
    main([f"--out={tmp_path}", "--dry_run", "--only=vit_256x6,vit_128x6", "--seeds=2"])
    names = [line.rpartition("/")[2] for line in capsys.readouterr().out.splitlines()]
    assert names == [
        f"{row}-{protocol}-s{seed}"
        for seed in (0, 1)
        for protocol in ("test", "val")
        for row in ("vit_256x6", "vit_128x6")
    ]


def test_small(cifar10_dir, tmp_path):
    arguments = [f"--data={cifar10_dir}", f"--out={tmp_path}", "--small", "--seeds=1"]
    arguments += ["--only=vit_256x6"]
    assert main(arguments) == 0
    first = (tmp_path / "table.md").read_text()
    assert main([*arguments, "--report"]) == 0, "and again: nothing is left to train"
    assert (tmp_path / "table.md").read_text() == first
    with (tmp_path / "table.csv").open() as file:
        runs = {run["protocol"]: run for run in csv.DictReader(file)}
    results = {
        protocol: json.loads(
            (tmp_path / "runs" / f"vit_256x6-{protocol}-s0/results.json").read_text()
        )
        for protocol in ("test", "val")
    }
    for protocol, run in runs.items():
        scored = results[protocol]
        assert scored["selected_on"] == protocol
        assert float(run["test_accuracy"]) == scored["test"]["accuracy"]
        assert scored["test"]["num_examples"] == 10_000 and scored["num_steps"] == 6
    assert results["val"]["val"]["num_examples"] == 5000
    # With both evaluations on the test split, the last is at most the best.
    last = float(runs["test"]["last_accuracy"])
    assert (
        last <= float(runs["test"]["test_accuracy"])
        and runs["val"]["last_accuracy"] == ""
    )
    (row,) = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert row["test"]["std"] is None, "one seed says nothing of its scatter"
    assert row["falls_short"] and "**short**" in first and "2 of 2 runs" in first
    with tarfile.open(tmp_path / "reproduce.tar.gz") as tar:
        packed = set(tar.getnames())
    with tarfile.open(tmp_path / "figures.tar.gz") as tar:
        packed |= set(tar.getnames())
    assert {"table.md", "runs/vit_256x6-val-s0/log.txt"} <= packed
    for name in ("per_class.csv", "figures/confusion_matrix.png"):
        assert f"runs/vit_256x6-val-s0/{name}" in packed
        assert f"runs/vit_256x6-test-s0/{name}" not in packed


def run(row, protocol, accuracy, last=None, error=None):
    return {
        "row": row, "protocol": protocol, "test_accuracy": accuracy,
        "last_accuracy": last, "error": error, "train_seconds": 10.0,
        "images_per_second": 5000.0,
    }  # fmt: skip


def test_columns():
    runs = [
        run("vit_256x6", "test", 0.76, 0.75), run("vit_256x6", "test", 0.78, 0.75),
        run("vit_256x6", "val", 0.74),
        run("vit_128x6", "test", 0.64, 0.64),
        {"row": "vit_128x6", "protocol": "val", "seed": 0, "error": "exit status 1"},
    ]  # fmt: skip
    markdown, rows = make_table(runs)
    strong, weak = rows
    assert strong["difference"] == pytest.approx(77 - 76.23)
    assert not strong["falls_short"] and strong["val"]["n"] == 1
    assert strong["won_by_selection"]["mean"] == pytest.approx(0.02)
    assert weak["difference"] == pytest.approx(-1) and weak["falls_short"]
    assert weak["failed"] == 1 and weak["val"] is None
    markdown = re.sub(r" +", " ", markdown)
    assert "77.00 ± 1.41 (2) | +0.77 | 74.00 (1) | 2.00 ± 1.41 (2)" in markdown
    assert "-1.00 **short**" in markdown


def test_unknown_row(tmp_path):
    with pytest.raises(UserError, match=r'no vit_265x6 \(did you mean "vit_256x6"'):
        main([f"--out={tmp_path}", "--only=vit_265x6"])
