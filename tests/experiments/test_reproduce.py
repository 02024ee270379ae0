"""The studies' table: real small runs, and the arithmetic of its columns."""

import csv
import json
import re
import tarfile

import pytest

from experiments.reproduce import (
    EXTRA_ROWS,
    ROWS,
    main,
    make_table,
    protocol_settings,
)
from vit_jax.config import load_config_file
from vit_jax.errors import UserError


def test_every_row_is_a_config():
    for row in (ROWS | EXTRA_ROWS).values():
        assert load_config_file(row.config).num_epochs >= 20
        assert row.reported is None or 60 < row.reported < 95


def test_each_studys_own_protocol():
    """Two studies chose their epoch on the test split, and two selected nothing."""
    settings = {name: protocol_settings(row, "original") for name, row in ROWS.items()}
    assert {s["data.validation"] for s in settings.values()} == {0}
    chosen = {name: s["data.select_on"] for name, s in settings.items()}
    assert chosen["vit_192x9"] == chosen["vit_192x12"] == "test"
    assert chosen["vit_128x6"] == chosen["vit_256x6"] == "nothing"
    assert protocol_settings(ROWS["vit_256x6"], "holdout") == {
        "data.validation": 5000,
        "data.validation_fraction": 0.0,
        "data.select_on": "val",
    }


def test_seeds_start_at_the_studys_own(capsys, tmp_path):
    arguments = ["--only=vit_192x9", "--seeds=2", "--protocols=original"]
    main([f"--out={tmp_path}", "--dry_run", *arguments])
    lines = capsys.readouterr().out.splitlines()
    assert "--config.seed=42" in lines[0] and "--config.seed=43" in lines[1]


def test_patterns(capsys, tmp_path):
    # A row that two patterns name is trained once.
    only = "--only=vit_256x6_baseline,vit_256x6*"
    arguments = [only, "--seeds=1", "--protocols=holdout"]
    main([f"--out={tmp_path}", "--dry_run", *arguments])
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_a_small_run_keeps_the_users_settings(capsys, tmp_path):
    arguments = ["--only=vit_192x9", "--seeds=1", "--protocols=holdout", "--small"]
    arguments += ["--config.batch_size=8", "--config.num_epochs=2"]
    main([f"--out={tmp_path}", "--dry_run", *arguments])
    words = capsys.readouterr().out.split()
    assert "--config.batch_size=8" in words and "--config.num_epochs=2" in words
    assert not any(word.startswith("--config.num_steps") for word in words)


def test_one_seed_of_everything_comes_first(capsys, tmp_path):
    main([f"--out={tmp_path}", "--dry_run", "--only=vit_256x6,vit_128x6", "--seeds=2"])
    names = [line.rpartition("/")[2] for line in capsys.readouterr().out.splitlines()]
    assert names == [
        f"{row}-{protocol}-s{seed}"
        for seed in (0, 1)
        for protocol in ("original", "holdout")
        for row in ("vit_256x6", "vit_128x6")
    ]


@pytest.mark.slow
def test_small(cifar10_dir, tmp_path):
    arguments = [f"--data={cifar10_dir}", f"--out={tmp_path}", "--small", "--seeds=1"]
    # Few patches, because all images held out and the test split are scored, and no
    # policy, which compiles for seconds.
    arguments += ["--config.model.patch_size=16", "--config.augment.policy=none"]
    arguments += ["--only=vit_192x12"]
    assert main(arguments) == 0
    first = (tmp_path / "table.md").read_text()
    assert main([*arguments, "--report"]) == 0, "and again: nothing is left to train"
    assert (tmp_path / "table.md").read_text() == first
    with (tmp_path / "table.csv").open() as file:
        runs = {run["protocol"]: run for run in csv.DictReader(file)}
    results = {}
    for protocol, run in runs.items():
        name = f"vit_192x12-{protocol}-s42"  # the study's own seed
        scored = json.loads((tmp_path / "runs" / name / "results.json").read_text())
        assert float(run["test_accuracy"]) == scored["test"]["accuracy"]
        assert scored["test"]["num_examples"] == 10_000 and scored["num_steps"] == 6
        results[protocol] = scored
    selected = {protocol: scored["selected_on"] for protocol, scored in results.items()}
    assert selected == {"original": "test", "holdout": "val"}
    assert results["holdout"]["val"]["num_examples"] == 5000
    # With both evaluations on the test split, the last is at most the best.
    chosen = results["original"]["test"]["accuracy"]
    assert float(runs["original"]["last_accuracy"]) <= chosen
    assert runs["holdout"]["last_accuracy"] == ""
    (row,) = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert row["original"]["std"] is None, "one seed says nothing of its scatter"
    assert row["falls_short"] and "**short**" in first and "2 of 2 runs" in first
    with tarfile.open(tmp_path / "reproduce.tar.gz") as tar:
        packed = set(tar.getnames())
    with tarfile.open(tmp_path / "figures.tar.gz") as tar:
        packed |= set(tar.getnames())
    assert {"table.md", "runs/vit_192x12-holdout-s42/log.txt"} <= packed
    for name in ("per_class.csv", "figures/confusion_matrix.png"):
        assert f"runs/vit_192x12-holdout-s42/{name}" in packed
        assert f"runs/vit_192x12-original-s42/{name}" not in packed


def run(row, protocol, accuracy, last=None, error=None):
    seconds = {"original": 10.0, "holdout": 9.0}[protocol]
    return {
        "row": row, "protocol": protocol, "test_accuracy": accuracy,
        "last_accuracy": last, "error": error, "train_seconds": seconds,
        "images_per_second": 5000.0,
    }  # fmt: skip


def test_columns():
    runs = [
        run("vit_192x12", "original", 0.86, 0.85),
        run("vit_192x12", "original", 0.88, 0.85),
        run("vit_192x12", "holdout", 0.84),
        run("vit_128x6", "original", 0.64),
        {"row": "vit_128x6", "protocol": "holdout", "seed": 0, "error": "exit 1"},
    ]  # fmt: skip
    markdown, rows = make_table(runs)
    strong, weak = rows
    assert strong["difference"] == pytest.approx(87 - 86.70)
    assert not strong["falls_short"] and strong["holdout"]["n"] == 1
    assert strong["won_by_selection"]["mean"] == pytest.approx(0.02)
    assert weak["difference"] == pytest.approx(-1) and weak["falls_short"]
    assert weak["failed"] == 1 and weak["holdout"] is None
    assert weak["won_by_selection"] is None
    markdown = re.sub(r" +", " ", markdown)
    assert (
        "best on test | 87.00 ± 1.41 (2) | +0.30 | 84.00 (1) | 2.00 ± 1.41 (2)"
        in markdown
    )
    assert "-1.00 **short**" in markdown
    # Runs of the other protocol have fewer images in an epoch.
    assert "2.00 ± 1.41 (2) | 10.00 ± 0.00 (2) |" in markdown


def test_a_setting_of_the_protocol_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"config\.data\.select_on follows from the"):
        main([f"--out={tmp_path}", "--dry_run", "--config.data.select_on=val"])


def test_unknown_row(tmp_path):
    with pytest.raises(UserError, match=r"no row 'vit_265x6' .*mean .vit_256x6"):
        main([f"--out={tmp_path}", "--only=vit_265x6"])
