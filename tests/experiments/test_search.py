"""The search compares arms on the hold-out and does not look at the test split."""

import argparse
import dataclasses
import json
import math
import re
import shlex
import time

import pytest

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import LEFT_OVER, report_left
from experiments.launching.summary import config_digest, describe_job
from experiments.search import main
from experiments.searching.arms import STUDIES
from experiments.searching.final import Search, compare_final, report_final, train_final
from experiments.searching.record import (
    describe_final,
    describe_record,
    read_record,
    require_same_base,
    require_same_configs,
)
from tests.rows import slow
from vit_jax import models
from vit_jax.errors import UserError
from vit_jax.training import optim
from vit_jax.training.plan import make_plan


def make_search(study, out, shared=(), **options):
    defaults = {
        "study": study, "small": False, "epochs": None, "seeds": 2, "retry": False,
        "all_images": False, "data": None, "settings": dict(shared),
    }  # fmt: skip
    options = argparse.Namespace(**defaults | options)
    return Search(STUDIES[study], dict(shared), Jobs(out), options)


def check_job(job):
    """Builds the parts of a run that need neither data nor compilation."""
    config = job.load_config()
    shape = (8, 8, 1) if "digits" in job.config else (32, 32, 3)
    models.make_model(config.model, num_classes=10, image_shape=shape, dtype="float32")
    plan = make_plan(config, 1258 if "digits" in job.config else 45_000)
    schedule = optim.make_schedule(
        config.schedule, peak=config.optim.learning_rate,
        total_steps=plan.total_steps, steps_per_epoch=plan.steps_per_epoch,
    )  # fmt: skip
    optim.make_optimizer(config.optim, schedule, config.model.depth or 0)


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_every_arm_is_a_change_that_can_be_made(study):
    base = Job("base", study.config, {}).requested()
    for arm, (_, settings) in study.arms.items():
        job = Job(arm, study.config, settings)
        requested = job.requested()
        changed = {key for key in base if requested[key] != base[key]}
        assert changed == set(settings), arm
        check_job(job)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(
    "shared",
    [
        {},
        {"num_epochs": "5.0", "time_budget": "None"},
        {"time_budget": "60 seconds", "num_steps": "None"},
    ],
    ids=str,
)
def test_a_length_replaces_those_before_it(shared, small, tmp_path):
    """One for all runs replaces a config's and that of --small, and a probe's both."""
    for name, study in STUDIES.items():
        search = make_search(name, tmp_path, shared, small=small, seeds=1)
        probes = [search.probe(rival) for rival in study.rivals]
        for job in [*search.our_jobs(), *probes]:
            expected = {"time_budget": "1 minute"} if job in probes else shared
            expected = {"num_steps": 6} if small and not shared else expected
            config = job.load_config()
            assert {key: str(config[key]) for key in expected} == {
                key: str(value) for key, value in expected.items()
            }, (name, job)


def test_a_small_run_has_a_stem_or_none_as_its_arm_and_the_users_settings(tmp_path):
    shared = {"batch_size": "8", "num_epochs": "1", "time_budget": "None"}
    search = make_search("laptop", tmp_path, shared, small=True, seeds=1)
    for job in search.arm_jobs(["base", "plain", "stem_wide"]):
        check_job(job)
        config = job.load_config()
        assert (config.batch_size, config.num_epochs, config.num_steps) == (8, 1, None)


def test_final_is_not_refused_for_the_arms_that_it_does_not_train(tmp_path, capsys):
    settings = ["--config.optim.name=adamw", "--config.augment.policy=trivialaugment"]
    run_search(tmp_path, "--study=flagship", "--final", "--dry_run", *settings)
    assert "--config.optim.name=adamw" in capsys.readouterr().out


def test_arms_named_twice_are_trained_once(tmp_path, capsys):
    run_search(tmp_path, "--study=digits", "--arms=lr_*,lr_1e-3", "--seeds=1",
               "--dry_run")  # fmt: skip
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("all_images", [False, True])
@pytest.mark.parametrize("study", STUDIES)
def test_every_final_run_can_be_made(study, all_images, tmp_path):
    search = make_search(study, tmp_path, all_images=all_images, seeds=1)
    for job in search.our_jobs():
        check_job(job)
    for rival in search.study.rivals:
        check_job(search.probe(rival))
        # Equal time may shorten a rival's training as much as this.
        for epochs in (6, 150):
            length = {"num_epochs": epochs, "num_steps": None, "time_budget": None}
            check_job(search.final_jobs("rival", rival, length)[0])


def make_run(jobs, job, *, accuracies, test_accuracy, seconds=10.0, speed=900.0):
    """The small files of a finished run."""
    folder = jobs.folder(job)
    folder.create()
    folder.write("job", {"requested": job.requested(), "wall_seconds": 20.0})
    versions = dict.fromkeys(("jax", "flax", "optax", "python"), "0.0")
    folder.write("environment", versions)
    folder.write("dataset", {"num_examples": {"train": 300}})
    for step, accuracy in enumerate(accuracies, 1):
        folder.append_metrics(
            {"split": "val", "step": step, "epoch": step, "accuracy": accuracy,
             "loss": 1 - accuracy, "seconds": 2.5 * step}
        )  # fmt: skip
    results = {
        "seed": 0, "num_epochs": len(accuracies), "train_seconds": seconds,
        "num_steps": 6, "num_params": 1000, "best_epoch": len(accuracies),
        "selected_on": job.settings.get("data.select_on", "val"),
        "images_per_second": speed, "num_devices": 1, "device": "cpu",
        "test": {"accuracy": test_accuracy},
    }  # fmt: skip
    folder.write("results", results)
    (folder.path / "checkpoints").mkdir()


def run_search(tmp_path, *arguments):
    options = [f"--out={tmp_path}", "--small", "--time_limit_seconds=0", *arguments]
    return main(options)


def test_ranking_follows_the_hold_out_alone(tmp_path):
    """Test accuracies would give the opposite order. The text of "learned" is kept."""
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


def test_what_is_written_into_the_record_during_a_search_stays(tmp_path, monkeypatch):
    options = ["--study=digits", "--arms=base", "--seeds=1"]
    (job,) = make_search("digits", tmp_path, small=True, seeds=1).arm_jobs(["base"])
    make_run(Jobs(tmp_path), job, accuracies=[0.5], test_accuracy=0.5)
    run_search(tmp_path, *options)
    file = tmp_path / "digits.json"
    record = json.loads(file.read_text())

    def edit(*_, **__):
        file.write_text(json.dumps(record | {"learned": {"base": "It learns."}}))
        return []

    monkeypatch.setattr(Jobs, "launch", edit)
    run_search(tmp_path, *options)
    assert json.loads(file.read_text())["learned"] == {"base": "It learns."}


@pytest.mark.parametrize("final", [False, True])
def test_a_row_is_not_replaced_by_a_run_with_other_settings(tmp_path, final):
    search = make_search("digits", tmp_path, small=True, seeds=1)
    (job,) = search.our_jobs() if final else search.arm_jobs(["base"])
    make_run(Jobs(tmp_path), job, accuracies=[0.5], test_accuracy=0.5)
    options = ["--study=digits", "--seeds=1", "--final" if final else "--arms=base"]
    assert run_search(tmp_path, *options) == 0
    with pytest.raises(UserError, match=r"\(num_epochs, .*\), which this one would"):
        run_search(tmp_path, *options, "--config.num_epochs=2",
                   f"--record={tmp_path}/digits.json")  # fmt: skip


def test_seeds_with_one_time_budget_are_one_arm():
    runs = {
        f"{arm}{seed}": {
            "arm": arm, "settings": {}, "seed": seed, "holdout_accuracy": accuracy,
            "holdout_loss": 1.0, "epochs": epochs, "time_budget": "30 CPU minutes",
            "train_seconds": 1.0, "wall_seconds": 1.0, "images_per_second": 1,
            "device": "cpu", "num_params": 1, "seconds_to_94": None, "parallel": 1,
        }
        for arm, seed, accuracy, epochs in (
            ("base", 0, 0.83, 8.01), ("base", 1, 0.84, 7.63), ("base", 2, 0.85, 8.22),
            ("depth_4", 0, 0.86, 5.1), ("depth_4", 1, 0.82, 5.3),
        )
    }  # fmt: skip
    record = {"learned": {}, "runs": runs, "final": {}}
    table = re.sub(r" +", " ", describe_record(record, STUDIES["laptop"]))
    base, deeper = table.index("| base | "), table.index("| depth_4 | ")
    assert base < deeper, "by the mean, not by the best seed"
    assert "| 7.63 to 8.22 | 84.00 ± 1.00 (3) |" in table
    assert "| 5.1 to 5.3 | 84.00 ± 2.83 (2) |" in table


@pytest.mark.parametrize(
    ("arm", "settings", "message"),
    [
        ("base", {"batch_size": "64"}, r"other settings \(batch_size\)"),
        ("no such arm", {}, "of an arm no such arm, which this study does not have"),
    ],
)
def test_a_record_ranks_runs_of_one_base(tmp_path, arm, settings, message):
    file, study = tmp_path / "record.json", STUDIES["laptop"]
    run = {"arm": arm, "settings": {**settings, "time_budget": "30 CPU minutes"}}
    record = {"learned": {}, "runs": {"laptop-base-s0": run}, "final": {}}
    file.write_text(json.dumps(record))
    search = make_search("laptop", tmp_path)
    arms = search.arm_jobs(["base", "depth_4"])
    with pytest.raises(UserError, match=message):
        require_same_base(read_record(file, study), arms, study, file)
    file.write_text("[]")
    with pytest.raises(UserError, match=r"is no record of a search .*; mend or remove"):
        read_record(file, study)
    # An arm's own settings and other lengths are other rows of one ranking.
    of_a_record = {"arm": "batch_64", "settings": {"batch_size": 64, "num_epochs": 9}}
    record["runs"] = {"laptop-batch_64-s0": of_a_record}
    require_same_base(record, arms, study, file)


def test_a_record_does_not_mix_runs_of_a_config_before_and_after_a_change(tmp_path):
    run = {"config": "configs/vit_digits.py", "config_sha256": "of before"}
    with pytest.raises(UserError, match=r"run a of .*vit_digits\.py, which has other"):
        require_same_configs({"a": run}, tmp_path / "record.json")
    run["config_sha256"] = config_digest(run["config"])
    assert run["config_sha256"] != config_digest("configs/vit_laptop.py")
    require_same_configs({"a": run, "old": {"arm": "base"}}, tmp_path / "record.json")


def test_left_over_runs_are_told(tmp_path, capsys):
    assert run_search(tmp_path, "--study=digits", "--arms=base", "--seeds=2") == 75
    told = capsys.readouterr().out
    assert "2 run(s) left: digits-base-small-s0, digits-base-small-s1" in told
    assert not list(tmp_path.glob("digits.*")), "no record of nothing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arms=adamv"], r"no arm 'adamv' .did you mean .adamw"),
        (["--config.modle.depth=1"], r"no setting config.modle.depth"),
        (["--depth=1"], r"Unknown argument --depth=1"),
        (["--config.data.select_on=test", "--arms=base"], r"on images held out"),
        (["--config.data.select_on=test", "--final"], r"on images held out"),
        slow(["--final", "--parallel=2"], r"must not slow each other down"),
        (["--epochs=3", "--arms=base,epochs_144"], r"but epochs_144 is about"),
        (["--epochs=3", "--final"], r"--epochs changes what .* --final trains"),
        (["--all_images"], r"give it only with --final"),
        (["--study=digits", "--data=files"], r"scikit-learn's digits; leave it out"),
        (["--config.seed=3"], r"--seeds=N says how many"),
        (["--arms=base", "--final"], r"--arms changes what .* --final trains"),
        (["--config.num_steps=9", "--arms=epochs_144"], r"but epochs_144 is about"),
        (["--epochs=3", "--config.num_steps=9"], r"num_steps and --epochs each give"),
        (["--record=table.md"], r"table\.md must be a file that ends in \.json"),
        (["--epochs=0"], r"--epochs: 0 is not a finite number above 0"),
    ],
)
def test_refused(tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        run_search(tmp_path, "--study=flagship", *arguments)


def test_a_study_has_to_be_named(tmp_path):
    with pytest.raises(UserError, match="--study is missing; give one of flagship, f"):
        run_search(tmp_path)


def test_one_length_for_all(tmp_path, capsys):
    """Arms that change the length are left out where --epochs sets it."""
    options = ["--study=fast", "--epochs=3", "--seeds=1", "--dry_run"]
    main([f"--out={tmp_path}", *options])
    left_out, *commands = capsys.readouterr().out.splitlines()
    assert left_out.endswith("epochs_96, epochs_192")
    assert len(commands) == len(STUDIES["fast"].arms) - 2
    assert all("--config.num_epochs=3.0" in command for command in commands)


@pytest.mark.slow
def test_dry_final_shows_final_runs(tmp_path, capsys):
    out = tmp_path / "a folder"
    run_search(out, "--study=flagship", "--final", "--seeds=2", "--dry_run")
    *commands, rest = capsys.readouterr().out.splitlines()
    configs = [shlex.split(command)[3] for command in commands]
    ours = "--config=configs/vit_cifar.py"
    assert configs == [ours, ours, "--config=configs/resnet_cifar.py"]
    assert f"--workdir={out}/runs/flagship-final-ours-small-s0" in shlex.split(
        commands[0]
    )
    assert rest.startswith("# and 2 run(s) of configs/resnet_cifar.py")
    # One length for all is no matter of the arms, which are not trained here.
    run_search(out, "--study=flagship", "--final", "--seeds=1", "--dry_run",
               "--config.time_budget=60 seconds")  # fmt: skip
    assert "left out" not in capsys.readouterr().out


@pytest.fixture
def final(tmp_path):
    """A search: the config took 8 and 12 s, and the rival's probe saw 900 images/s."""
    search = make_search("flagship", tmp_path, all_images=True)
    ours, probe = search.our_jobs(), search.probe("configs/resnet_cifar.py")
    for job, seconds in zip(ours, (8.0, 12.0), strict=True):
        make_run(search.jobs, job, accuracies=[0.5], test_accuracy=seconds / 20,
                 seconds=seconds)  # fmt: skip
    return search, ours, probe


def test_a_rival_trains_for_as_long(final):
    search, _, probe = final
    rival = "configs/resnet_cifar.py"
    assert search.rival_jobs(rival) is None
    make_run(search.jobs, probe, accuracies=[0.5], test_accuracy=0.1)
    # Seed 0 took 8 s; at 900 images/s these are 24 epochs of 300 images.
    jobs = search.rival_jobs(rival)
    assert [job.settings["num_epochs"] for job in jobs] == [24.0, 24.0]
    # A number of steps that all runs share would be another time.
    assert {job.settings["num_steps"] for job in (*jobs, probe)} == {None}


def test_a_probe_that_fails_is_told(final, capsys):
    search, ours, probe = final
    folder = search.jobs.folder(probe)
    folder.create()
    folder.write("job", {"requested": probe.requested(), "wall_seconds": 1.0})
    (folder.path / "error.txt").write_text("exit status 1\nerror: too slow\n")
    trained, probes, left = train_final(search, time.monotonic() + 600)
    assert [job.name for job in trained] == [job.name for job in ours]
    assert [job.name for job in probes] == [probe.name] and not left
    assert report_left(search.jobs, [*trained, *probes], left) == 1
    told = capsys.readouterr().out
    assert "resnet_cifar.py is not trained" in told and "error: too slow" in told


@pytest.mark.slow
def test_a_comparison_that_fails_or_comes_too_late_is_told(final, capfd):
    search, ours, _ = final
    assert compare_final(search, ours, math.inf) == 0, "no states, nothing to compare"
    for job in ours:
        (search.jobs.folder(job).checkpoints / "6").mkdir()
    assert compare_final(search, ours, time.monotonic()) == LEFT_OVER
    assert "no time was left" in capfd.readouterr().out
    # These runs are made up and cannot be scored.
    assert compare_final(search, ours, math.inf) == 1
    told, error = capfd.readouterr()
    assert "comparing them failed" in told and "error: " in error


def test_final_shows_test_scores(final):
    search, ours, _ = final
    rows = report_final(search, ours)
    assert [row["test_accuracy"] for row in rows.values()] == [0.4, 0.6]
    text = re.sub(r" +", " ", describe_final(rows))
    assert "| all | 1 | 50.00 ± 14.14 (2) | – | 1,000 | 10.00 ± 2.83 (2)" in text
    # Runs of other images or of another length are other rows.
    name, row = next(iter(rows.items()))
    others = {"a": row | {"all_images": False}, "b": row | {"epochs": 7}}
    text = re.sub(r" +", " ", describe_final({name: row, **others}))
    assert text.count("40.00 (1)") == 3
    assert "| without the hold-out | 1 |" in text and "| all | 7 |" in text
    other = row | {"settings": {"batch_size": 64}}
    text = re.sub(r" +", " ", describe_final({name: row, "c": other}))
    assert text.count("40.00 (1)") == 2 and "| `batch_size=64` | all |" in text


def test_the_race_is_to_94_percent(tmp_path):
    search = make_search("fast", tmp_path, seeds=1)
    arms = {"base": [0.93, 0.99], "adamw": [0.94, 0.95], "lr_double": [0.9, 0.93]}
    runs = {}
    for job, arm in search.arm_jobs(list(arms)).items():
        make_run(search.jobs, job, accuracies=arms[arm], test_accuracy=0.0)
        runs[job.name] = {"arm": arm} | describe_job(search.jobs, job)
    assert [run["seconds_to_94"] for run in runs.values()] == [5.0, 2.5, None]
    record = {"learned": {}, "runs": runs, "final": {}}
    table = describe_record(record, search.study)
    first, second, third = (table.index(f"| {arm}") for arm in ("adamw", "base", "lr_"))
    assert first < second < third
    by_accuracy = dataclasses.replace(search.study, is_race=False)
    table = describe_record(record, by_accuracy)
    assert table.index("| base") < table.index("| adamw")


def test_an_evaluation_that_is_not_finite_is_never_the_best(tmp_path):
    search = make_search("fast", tmp_path, seeds=1)
    (job,) = search.arm_jobs(["base"])
    make_run(search.jobs, job, accuracies=[math.nan, 0.94, 0.5], test_accuracy=0.0)
    row = describe_job(search.jobs, job)
    assert (row["holdout_accuracy"], row["seconds_to_94"]) == (0.94, 5.0)


@pytest.mark.parametrize(("accuracy", "seconds"), [(0.94, 10.0), (0.93, None)])
def test_with_all_images_the_end_counts(tmp_path, accuracy, seconds):
    search = make_search("fast", tmp_path, seeds=1, all_images=True)
    (job,) = search.our_jobs()
    make_run(search.jobs, job, accuracies=[1.0], test_accuracy=accuracy)
    assert report_final(search, [job])[job.name]["seconds_to_94"] == seconds


@pytest.mark.parametrize("select_on", ["test", "nothing"])
def test_only_images_held_out_give_hold_out_scores(tmp_path, select_on):
    """Evaluations of a run that selects on the test split are of that split."""
    jobs = Jobs(tmp_path)
    job = Job("run", "configs/vit_digits.py", {"data.select_on": select_on})
    make_run(jobs, job, accuracies=[0.95, 0.99], test_accuracy=0.99)
    row = describe_job(jobs, job)
    assert row["selected_on"] == select_on
    for key in ("holdout_accuracy", "holdout_loss", "seconds_to_94"):
        assert row[key] is None
