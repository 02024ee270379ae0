"""The search compares arms on the hold-out and does not look at the test split."""

import argparse
import json
import re

import pytest

from experiments.arms import STUDIES
from experiments.final import Search, _equal_epochs, report_final
from experiments.launch import Job, Jobs
from experiments.record import describe_record, describe_run
from experiments.search import main
from vit_jax import models
from vit_jax.errors import UserError


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_every_arm_is_a_change_that_can_be_made(study):
    base = Job("base", study.config, {}).requested()
    shape = (8, 8, 1) if "digits" in study.config else (32, 32, 3)
    for arm, (_, settings) in study.arms.items():
        requested = Job(arm, study.config, settings).requested()
        changed = {key for key in base if requested[key] != base[key]}
        assert changed == set(settings), arm
        model = {
            key.removeprefix("model."): value
            for key, value in requested.items()
            if key.startswith("model.")
        }
        models.make_model(model, num_classes=10, image_shape=shape, dtype="float32")


def make_run(jobs, job, *, accuracies, test_accuracy, seconds=10.0, speed=900.0):
    """The small files of a finished run."""
    folder = jobs.folder(job)
    folder.create()
    folder.write("job", {"requested": job.requested(), "wall_seconds": 20.0})
    folder.write("environment", {"jax": "0.0"})
    folder.write("dataset", {"num_examples": {"train": 300}})
    for step, accuracy in enumerate(accuracies, 1):
        folder.append_metrics(
            {"split": "val", "step": step, "epoch": step, "accuracy": accuracy,
             "loss": 1 - accuracy}
        )  # fmt: skip
    results = {
        "seed": 0, "num_epochs": len(accuracies), "train_seconds": seconds,
        "images_per_second": speed, "num_devices": 1, "device": "cpu",
        "test": {"accuracy": test_accuracy},
    }  # fmt: skip
    folder.write("results", results)
    (folder.path / "checkpoints").mkdir()


def run_search(tmp_path, *arguments):
    options = [f"--out={tmp_path}", "--small", "--time_limit_seconds=0", *arguments]
    return main(options)


def test_ranking_follows_the_hold_out_alone(tmp_path):
    """Arms whose test accuracies say the opposite; and 'learned' is kept."""
    study = STUDIES["flagship"]
    options = ["--study=flagship", "--arms=base,adamw", "--seeds=1"]
    run_search(tmp_path, *options)
    jobs = Jobs(tmp_path)
    names = ["flagship-base-small-s0", "flagship-adamw-small-s0"]
    requested = [jobs.folder(Job(n, "", {})).read("job")["requested"] for n in names]
    assert [r["optim.name"] for r in requested] == ["muon", "adamw"]
    for name, accuracies, test in zip(
        names, ([0.3, 0.2], [0.1, 0.4]), (0.77, 0.55), strict=True
    ):
        config = jobs.folder(Job(name, "", {})).read("job")
        make_run(jobs, Job(name, study.config, {}), accuracies=accuracies,
                 test_accuracy=test)  # fmt: skip
        jobs.folder(Job(name, "", {})).write("job", config)
    assert run_search(tmp_path, *options) == 0
    file = tmp_path / "flagship.json"
    record = json.loads(file.read_text())
    found = {run["arm"]: run["holdout_accuracy"] for run in record["runs"].values()}
    assert found == {"base": 0.3, "adamw": 0.4}
    record["learned"]["adamw"] = "It is better."
    file.write_text(json.dumps(record))
    run_search(tmp_path, *options)
    table = (tmp_path / "flagship.md").read_text()
    assert table.index("| adamw") < table.index("| base")
    assert "It is better." in table and "`optim.name=adamw`" in table
    for text in (table, file.read_text()):
        assert "77" not in text and "55" not in text, "no test score"


def test_left_over_runs_are_told(tmp_path, capsys):
    assert run_search(tmp_path, "--study=digits", "--arms=base", "--seeds=2") == 75
    told = capsys.readouterr().out
    assert "2 run(s) left: digits-base-small-s0, digits-base-small-s1" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arms=adamv"], r'no arm adamv \(did you mean "adamw"'),
        (["--config.modle.depth=1"], r"no setting config.modle.depth"),
        (["--depth=1"], r"Unknown argument --depth=1"),
        (["--config.data.validation=test", "--arms=base"], r"on images held out"),
    ],
)
def test_refused(tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        run_search(tmp_path, *arguments)


@pytest.fixture
def final(tmp_path):
    """A search whose config took 10 s, and a rival's probe of 900 images/s."""
    options = argparse.Namespace(
        study="flagship", small=False, epochs=None, seeds=2, all_images=True
    )
    search = Search(STUDIES["flagship"], {}, Jobs(tmp_path), options)
    ours = [search.job("ours", "configs/vit_cifar.py", {}, seed) for seed in (0, 1)]
    probe = search.job("probe", "configs/resnet_cifar.py", {}, 0)
    for job, seconds in zip(ours, (8.0, 12.0), strict=True):
        make_run(search.jobs, job, accuracies=[0.5], test_accuracy=seconds / 20,
                 seconds=seconds)  # fmt: skip
    make_run(search.jobs, probe, accuracies=[0.5], test_accuracy=0.1)
    return search, ours, probe


def test_a_rival_trains_for_as_long(final):
    search, ours, probe = final
    # 10 s at 900 images a second over 300 images.
    assert _equal_epochs(search, ours, probe) == 30.0


def test_final_shows_test_scores(final):
    search, ours, _ = final
    for job in ours:  # Nothing to draw: `compare` needs real checkpoints.
        (search.jobs.folder(job).path / "checkpoints").rmdir()
    rows = report_final(search, ours)
    assert [row["test_accuracy"] for row in rows.values()] == [0.4, 0.6]
    record = {"learned": {}, "runs": {}, "final": rows}
    text = re.sub(r" +", " ", describe_record(record, search.study))
    assert "50.00 ± 14.14 (2) | – |" in text and "10.00 ± 2.83 (2)" in text


def test_a_row_has_no_test_score(final):
    search, ours, _ = final
    before = describe_run(search.jobs, ours[0])
    folder = search.jobs.folder(ours[0])
    folder.write("results", folder.read("results") | {"test": None})
    assert describe_run(search.jobs, ours[0]) == before
