"""Runs as processes: interrupted, resumed, failed, skipped, packed; all for real."""

import os
import signal
import tarfile
import threading
import time

import pytest

from experiments.launch import Job, Jobs
from experiments.options import LEFT_OVER, report_left
from experiments.summary import mean_std, show_mean_std
from vit_jax.errors import UserError

DIGITS = "configs/vit_digits.py"
# Long enough to be interrupted in the middle, small enough to be finished in seconds.
SETTINGS = {
    "num_steps": 400, "batch_size": 16, "log_every": "5 steps", "num_devices": 1,
    "eval_every": "200 steps", "schedule.warmup": "10 steps", "model.width": 16,
    "model.depth": 1, "model.num_heads": 2, "model.stem": "patch",
    "model.patch_size": 4,
}  # fmt: skip
NO_DATA = {"data.source": "folder", "data.dir": "/nowhere/at/all"}


def interrupt_when_training(jobs, job):
    """SIGTERM to this process once the run has logged something."""
    metrics = jobs.folder(job).path / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text()):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(jobs, a finished job, one that failed) after one interruption."""
    jobs = Jobs(tmp_path_factory.mktemp("launch"))
    job, broken = Job("fine", DIGITS, SETTINGS), Job("broken", DIGITS, NO_DATA)
    thread = threading.Thread(target=interrupt_when_training, args=(jobs, job))
    thread.start()
    assert jobs.launch([broken, job]) == [job]
    thread.join()
    first_seconds = jobs.wall_seconds(job)
    assert not jobs.is_finished(job) and jobs.error(job) is None
    log = (jobs.folder(job).path / "log.txt").read_text()
    assert "rerun the same command to resume (SIGTERM)" in log
    assert jobs.launch([broken, job]) == []
    assert jobs.wall_seconds(job) > first_seconds
    return jobs, job, broken


def test_interrupted_runs_resume(finished):
    jobs, job, _ = finished
    folder = jobs.folder(job)
    assert "resuming from step" in (folder.path / "log.txt").read_text()
    assert folder.read("results")["num_steps"] == SETTINGS["num_steps"]
    assert len(folder.read("environment")["earlier_starts"]) == 1


def test_failed_runs_leave_their_error_and_are_not_repeated(finished, capsys):
    jobs, job, broken = finished
    assert "/nowhere/at/all" in jobs.error(broken)
    log = (jobs.folder(broken).path / "log.txt").read_text()
    assert log.count("error:") == 1, "tried once, by two launches"
    assert report_left(jobs, [job, broken], []) == 1
    assert report_left(jobs, [job, broken], [job]) == LEFT_OVER
    assert "failed: broken" in capsys.readouterr().out
    jobs.launch([broken], retry=True)
    log = (jobs.folder(broken).path / "log.txt").read_text()
    assert log.count("error:") == 2


def test_results_travel_without_checkpoints(finished, tmp_path):
    jobs, job, _ = finished
    with tarfile.open(jobs.pack("all")) as tar:
        names = tar.getnames()
        tar.extractall(tmp_path, filter="data")
    assert {"runs/fine/results.json", "runs/fine/log.txt", "runs/broken/error.txt",
            "runs/fine/metrics.jsonl"} <= set(names)  # fmt: skip
    assert not any("checkpoints" in name or "compiled" in name for name in names)
    elsewhere = Jobs(tmp_path)
    assert elsewhere.launch([job]) == []
    assert elsewhere.wall_seconds(job) == jobs.wall_seconds(job)


def test_time_is_up(tmp_path):
    jobs, job = Jobs(tmp_path), Job("fine", DIGITS, SETTINGS)
    assert jobs.launch([job], deadline=time.monotonic()) == [job]
    assert not (jobs.folder(job).path / "log.txt").exists()


def test_a_folder_of_other_settings_is_refused(finished):
    jobs, _, _ = finished
    with pytest.raises(UserError, match=r"other settings \(batch_size\)"):
        jobs.launch([Job("fine", DIGITS, SETTINGS | {"batch_size": 8})])


def test_a_slip_is_found_before_the_first_run(tmp_path):
    slips = [Job("fine", DIGITS, SETTINGS), Job("slip", DIGITS, {"modle.depth": 1})]
    with pytest.raises(UserError, match=r"no setting config.modle.depth"):
        Jobs(tmp_path).launch(slips)
    assert not (tmp_path / "runs" / "fine" / "log.txt").exists()


def test_several_processes_share_the_memory(tmp_path):
    environment = Jobs(tmp_path, parallel=3)._environment()
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.300"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in Jobs(tmp_path)._environment()
    assert (tmp_path / "compiled").stat().st_mode & 0o077 == 0


def test_mean_and_deviation():
    assert mean_std([0.9, 0.92, 0.94]) == pytest.approx((0.92, 0.02))
    assert show_mean_std([0.9, 0.92, 0.94]) == "92.00 ± 2.00 (3)"
    assert show_mean_std([0.9]) == "90.00 (1)" and show_mean_std([]) == "–"
