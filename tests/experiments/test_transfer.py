"""The study of transfers: its runs, and its table."""

import argparse
import json
import shutil
import subprocess
import sys
import time

import pytest

from experiments.launching.jobs import Jobs
from experiments.launching.options import add_arguments, parse
from experiments.transfer import (
    ARMS,
    HELPERS,
    compare_with_scratch,
    main,
    make_jobs,
    write_tables,
)
from vit_jax.errors import UserError


def make_study(out, *arguments):
    """(jobs, helpers, arms) of one seed."""
    parser, jobs = argparse.ArgumentParser(), Jobs(out)
    add_arguments(parser, out=str(out))
    parser.add_argument("--data100")
    return jobs, *make_jobs(jobs, parse(parser, ["--seeds=1", *arguments]))


def test_a_small_study_has_settings_that_fit(tmp_path):
    _, helpers, arms = make_study(tmp_path, "--small")
    for job in (*helpers.values(), *arms):
        assert job.load_config().batch_size == 32


def test_a_small_study_takes_the_users_settings(tmp_path):
    _, helpers, arms = make_study(tmp_path, "--small", "--config.batch_size=8")
    for job in (*helpers.values(), *arms):
        assert job.load_config().batch_size == 8
    # That of a stage is the stage's own, at full size as well.
    with pytest.raises(UserError, match=r"warmup is .* each of config\.stages"):
        main([f"--out={tmp_path}", "--small", "--config.schedule.warmup=1 steps"])


def test_each_arm_starts_from_its_helper(tmp_path, capsys):
    out = str(tmp_path / "out")
    arguments = ["--dry_run", "--seeds=2", f"--out={out}", f"--data={tmp_path}/a"]
    arguments.append(f"--data100={tmp_path}/b")
    assert main(arguments) == 0
    commands = capsys.readouterr().out.splitlines()
    assert len(commands) == len(HELPERS) + 2 * len(ARMS)
    starts = {
        "cifar100": f"--config.pretrained.path={out}/runs/pretrain",
        "masked": f"--config.pretrained.path={out}/runs/mae",
        "distilled": f"--config.distill.teacher={out}/runs/teacher",
    }
    for command in commands:
        name = command.rpartition("/")[2]
        arm = name.partition("-s")[0]
        assert (f"data.dir={tmp_path}/b" in command) == (name == "pretrain")
        for other, start in starts.items():
            assert (start in command) == (arm == other)
        if "-s" in name:
            assert f"--config.seed={name[-1]} " in command


def test_a_mistake_of_an_arm_is_told_before_its_helper_is_trained(tmp_path):
    arguments = [f"--out={tmp_path}", "--dry_run", "--config.num_epochs=3"]
    with pytest.raises(UserError, match=r"num_epochs is 3\.0, but has no effect"):
        main(arguments)


def test_the_table_says_how_much_is_done(tmp_path):
    jobs, helpers, arms = make_study(tmp_path)
    write_tables(jobs, helpers, arms)
    assert "0 of 4 runs" in (tmp_path / "table.md").read_text()
    assert json.loads((tmp_path / "results.json").read_text())["tests"] == {}


@pytest.mark.slow
def test_a_signal_ends_the_command_and_not_one_run(cifar10_dir, cifar100_dir, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "experiments.transfer", "--small", "--seeds=1"]
    data = [f"--data={cifar10_dir}", f"--data100={cifar100_dir}"]
    process = subprocess.Popen([*command, *data, f"--out={out}"])
    while not (out / "runs" / "pretrain" / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.terminate()
    assert process.wait(60) == 75
    assert not list(out.glob("runs/*-s0"))
    assert "0 of 4 runs" in (out / "table.md").read_text()


def test_an_arm_is_tested_against_scratch_image_by_image(tiny_run, tmp_path):
    jobs, _, arms = make_study(tmp_path)
    for job, (arm, _) in arms.items():
        if arm in ("scratch", "masked"):
            shutil.copytree(tiny_run[0], jobs.folder(job).path)
    expected = {"seed": 0, "only_a": 0, "only_b": 0, "p_value": 1.0}
    assert compare_with_scratch(jobs, arms) == {"masked": [expected]}


def test_runs_whose_checkpoints_stayed_behind_are_not_compared(tmp_path):
    jobs, _, arms = make_study(tmp_path)
    for job in arms:
        folder = jobs.folder(job)
        folder.create()
        folder.write("results", {"num_steps": 5})
        assert jobs.is_finished(job)
    assert compare_with_scratch(jobs, arms) == {}
    before = {"masked": [{"seed": 0, "p_value": 0.25}]}
    (tmp_path / "results.json").write_text(json.dumps({"tests": before}))
    assert compare_with_scratch(jobs, arms) == before
    # Its runs are not of this table.
    fewer = {job: place for job, place in arms.items() if place[1] > 0}
    assert compare_with_scratch(jobs, fewer) == {"masked": []}


def test_the_table_does_without_a_second_test_split(tiny_run, tmp_path):
    jobs, helpers, arms = make_study(tmp_path)
    job, *_ = arms
    shutil.copytree(tiny_run[0], jobs.folder(job).path)
    folder, job_file = jobs.folder(job), {"requested": {}, "wall_seconds": 1.0}
    folder.write("job", job_file)
    results = folder.read("results")
    del results["subset_test"]
    folder.write("results", results)
    write_tables(jobs, helpers, arms)
    assert "1 of 4 runs" in (tmp_path / "table.md").read_text()
