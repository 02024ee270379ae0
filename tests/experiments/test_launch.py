"""Real processes are interrupted, resumed, skipped and packed, and one fails."""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time

import pytest

from experiments.launching.jobs import Job, Jobs, run_environment
from experiments.launching.options import (
    LEFT_OVER,
    add_arguments,
    positive_float,
    report_left,
    run_until,
)
from experiments.launching.study import run_study
from experiments.launching.summary import show_mean, show_mean_std
from tests.parallel.running import require_mount
from vit_jax.errors import UserError
from vit_jax.runs.lock import lock
from vit_jax.runs.user_code import own_tables

DIGITS = "configs/vit_digits.py"
# Long enough to be interrupted twice in the middle, and small enough to be finished in
# seconds.
SETTINGS = {
    "num_steps": 1000, "batch_size": 16, "log_every": "5 steps", "num_devices": 1,
    "eval_every": "500 steps", "schedule.warmup": "10 steps", "model.width": 16,
    "model.depth": 1, "model.num_heads": 2, "model.stem": "patch",
    "model.patch_size": 4,
}  # fmt: skip
NO_DATA = {"data.source": "folder", "data.dir": "/nowhere/at/all"}


def wait_until(condition, seconds=120):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def interrupt_when_training(jobs, job):
    """Sends SIGTERM to this process once the run has trained beyond what it has."""
    before = last_step(jobs, job)
    wait_until(lambda: last_step(jobs, job) > before)
    os.kill(os.getpid(), signal.SIGTERM)


def last_step(jobs, job):
    """The last step that the run has logged; 0 before its first."""
    return max((r["step"] for r in jobs.folder(job).read_metrics()), default=0)


def wall_seconds(jobs, job):
    return jobs.folder(job).read("job")["wall_seconds"]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """(jobs, a job, names of its checkpoints), unpacked after its launcher was killed.

    `finished` goes on with the same run, because every start of a training takes many
    seconds.
    """
    folder = tmp_path_factory.mktemp("launch")
    jobs, job = Jobs(folder / "here"), Job("fine", DIGITS, SETTINGS)
    code = (
        "from experiments.launching.jobs import Job, Jobs\n"
        f"Jobs({str(jobs.out)!r}).launch([Job('fine', {DIGITS!r}, {job.settings!r})])"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    wait_until(lambda: last_step(jobs, job) > 0)
    # Only Linux tells the children of a launcher that is killed.
    is_linux = sys.platform == "linux"
    launcher.send_signal(signal.SIGKILL if is_linux else signal.SIGTERM)
    launcher.wait()
    log = jobs.folder(job).path / "log.txt"
    wait_until(lambda: "to resume (SIGTERM)" in log.read_text(), seconds=60)
    with tarfile.open(jobs.pack("all")) as tar:
        tar.extractall(folder / "there", filter="data")
    jobs = Jobs(folder / "there")
    return jobs, job, [path.name for path in jobs.folder(job).checkpoints.iterdir()]


@pytest.fixture(scope="module")
def finished(killed):
    """(jobs, a finished job, one that failed) after one more interruption."""
    jobs, job, _ = killed
    broken, first_step = Job("broken", DIGITS, NO_DATA), last_step(jobs, job)
    log = jobs.folder(job).path / "log.txt"
    assert log.read_text().count("to resume (SIGTERM)") == 1
    thread = threading.Thread(target=interrupt_when_training, args=(jobs, job))
    thread.start()
    assert jobs.launch([broken, job]) == [job]
    thread.join()
    first_seconds = wall_seconds(jobs, job)
    assert not jobs.is_finished(job) and jobs.error(job) is None
    assert last_step(jobs, job) > first_step
    text = log.read_text()
    assert text.count("rerun the same command to resume (SIGTERM)") == 2
    assert jobs.launch([broken, job]) == [job], "a stopped launcher starts nothing"
    jobs = Jobs(jobs.out)
    assert jobs.launch([broken, job]) == []
    assert wall_seconds(jobs, job) > first_seconds
    return jobs, job, broken


@pytest.mark.slow
def test_interrupted_runs_resume(finished):
    jobs, job, _ = finished
    folder = jobs.folder(job)
    text = (folder.path / "log.txt").read_text()
    saved = re.findall(r"saved step (\d+); rerun", text)
    # Each time from where the run was stopped, also where it was unpacked.
    assert re.findall(r"resuming from step (\d+)", text) == saved and len(saved) == 2
    assert folder.read("results")["num_steps"] == SETTINGS["num_steps"]
    assert len(folder.read("environment")["earlier_starts"]) == 2


@pytest.mark.slow
def test_failed_runs_leave_their_error_and_are_not_repeated(finished, capsys):
    jobs, job, broken = finished
    assert jobs.error(broken).startswith("exit status 1: error: ")
    assert "/nowhere/at/all" in jobs.error(broken)
    log = (jobs.folder(broken).path / "log.txt").read_text()
    assert log.count("error:") == 1, "tried once, by two launches"
    assert report_left(jobs, [job, broken], []) == 1
    assert report_left(jobs, [job, broken], [job]) == LEFT_OVER
    assert "failed: broken" in capsys.readouterr().out
    jobs.launch([broken], retry=True)
    log = (jobs.folder(broken).path / "log.txt").read_text()
    assert log.count("error:") == 2


@pytest.mark.slow
def test_results_travel_without_checkpoints(finished, tmp_path):
    jobs, job, _ = finished
    with tarfile.open(jobs.pack("all")) as tar:
        names = tar.getnames()
        tar.extractall(tmp_path, filter="data")
    assert {"runs/fine/results.json", "runs/fine/log.txt", "runs/broken/error.txt",
            "runs/fine/metrics.jsonl"} <= set(names)  # fmt: skip
    assert not any("checkpoints" in name or "lock" in name for name in names)
    # A run that starts from this one still needs its weights.
    with tarfile.open(jobs.pack("all", [job])) as tar:
        assert any("runs/fine/checkpoints" in name for name in tar.getnames())
    text = (tmp_path / "runs" / "fine" / "environment.json").read_text()
    for start in (json.loads(text), *json.loads(text)["earlier_starts"]):
        assert "host" not in start and "--workdir=fine" in start["command"]
    assert str(jobs.out) not in text
    elsewhere = Jobs(tmp_path)
    assert elsewhere.launch([job]) == []
    assert wall_seconds(elsewhere, job) == wall_seconds(jobs, job)


def test_time_is_up(tmp_path, capfd):
    jobs, job = Jobs(tmp_path), Job("fine", DIGITS, SETTINGS)
    for seconds in (0, 50):
        deadline = time.monotonic() + seconds
        assert jobs.launch([job], deadline=deadline) == [job]
        assert time.monotonic() < deadline + 30, "nothing is waited for"
    assert "less than 60 s are left: nothing starts" in "".join(capfd.readouterr())
    assert not (jobs.folder(job).path / "log.txt").exists()


def test_a_job_of_a_model_of_ones_own_is_another_job(tmp_path):
    jobs, job = Jobs(tmp_path), Job("fine", DIGITS, SETTINGS)
    requested = job.requested() | {"model.name": "small_net", "code": "my_code.py"}
    jobs.folder(job).create()
    jobs.folder(job).write("job", {"requested": requested})
    with pytest.raises(UserError, match=r"other settings \(code, .*model\.name"):
        jobs.launch([job])


def test_a_study_may_be_moved_with_the_runs_that_others_start_from(tmp_path):
    def start(out):
        path = str(out / "runs" / "first")
        job = Job("second", DIGITS, SETTINGS | {"pretrained.path": path})
        return Jobs(out).launch([job], deadline=time.monotonic())

    start(tmp_path / "out")
    assert len(start((tmp_path / "out").rename(tmp_path / "moved"))) == 1


def test_a_run_of_ones_own_model_is_known_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "own.py"
    file.write_text("from vit_jax.models import ViT\nMODELS = {'own_vit': ViT}\n")
    job = Job("own", DIGITS, SETTINGS | {"code": str(file), "model.name": "own_vit"})
    with own_tables():
        for _ in range(2):
            assert Jobs(tmp_path).launch([job], deadline=time.monotonic()) == [job]


def test_a_slip_is_found_before_the_first_run(tmp_path):
    slips = [Job("fine", DIGITS, SETTINGS), Job("slip", DIGITS, {"modle.depth": 1})]
    with pytest.raises(UserError, match=r"no setting config.modle.depth"):
        Jobs(tmp_path).launch(slips)
    assert not (tmp_path / "runs" / "fine" / "log.txt").exists()


@pytest.mark.parametrize(
    "given", ["--seeds=0", "--parallel=-2", "--seeds=1.5", "--seeds=0,1,2"]
)
def test_counts_are_whole_numbers_above_0(given, capsys):
    parser = argparse.ArgumentParser()
    add_arguments(parser, out="runs")
    with pytest.raises(SystemExit):
        parser.parse_args([given])
    error = capsys.readouterr().err
    assert "is not a whole number above 0" in error
    assert ("write --seeds=3 for three seeds" in error) == ("seeds" in given)


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "many"])
def test_lengths_are_finite_numbers_above_0(given):
    assert positive_float("0.5") == 0.5
    with pytest.raises(argparse.ArgumentTypeError, match="not a finite number above 0"):
        positive_float(given)


def test_several_processes_share_the_memory(monkeypatch):
    name, former = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
    monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(former, raising=False)
    assert run_environment(3)[name] == "0.300"
    assert name not in run_environment(1)
    for given, other in ((name, former), (former, name)):
        monkeypatch.setenv(given, "0.5")
        found = run_environment(3)
        assert found[given] == "0.5" and other not in found
        monkeypatch.delenv(given)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the children")
def test_a_launcher_that_is_killed_takes_its_runs_along(killed, finished):
    """The run saves its state, is packed, and resumes where it is unpacked."""
    jobs, job, (step,) = killed
    assert finished[0].out == jobs.out
    log = (jobs.folder(job).path / "log.txt").read_text()
    assert f"saved step {step}; rerun the same command to resume (SIGTERM)" in log
    assert f"resuming from step {step}" in log
    assert jobs.folder(job).read("results")["num_steps"] == SETTINGS["num_steps"]


def test_a_folder_in_use_is_left(tmp_path, capsys):
    jobs, job = Jobs(tmp_path), Job("fine", DIGITS, SETTINGS)
    jobs.folder(job).create()
    with lock(jobs.folder(job).path / "lock.json"):
        assert jobs.launch([job]) == [job]
    assert jobs.error(job) is None
    assert f"is in use by process {os.getpid()}" in capsys.readouterr().out


def test_scores_of_a_run_that_was_interrupted_do_not_finish_it(tmp_path):
    jobs, job = Jobs(tmp_path), Job("fine", DIGITS, SETTINGS)
    jobs.folder(job).create()
    # `evaluate` writes these scores.
    jobs.folder(job).write("results", {"test": {"accuracy": 0.5}})
    assert not jobs.is_finished(job)


def test_a_setting_that_came_later_had_its_default(tmp_path):
    jobs, job = Jobs(tmp_path), Job("fine", DIGITS, SETTINGS)
    requested = job.requested()
    del requested["model.drop_path"]
    jobs.folder(job).create()
    jobs.folder(job).write("job", {"requested": requested})
    assert jobs.launch([job], deadline=time.monotonic()) == [job]


def test_a_command_ends_at_the_deadline():
    sleep = ("timeit", "-n1", "-r1", "import time; time.sleep(60)")
    start = time.monotonic()
    assert run_until(start, *sleep) is None
    assert run_until(start + 0.5, *sleep) is None
    assert time.monotonic() < start + 30
    assert run_until(math.inf, "timeit", "-n1", "1") == 0
    assert run_until(math.inf, "timeit", "-n1", "1 / 0") == 1


class Launches(Jobs):
    """Trains nothing; a run is finished once it was launched, unless it fails."""

    def __init__(self, out, *, failing, left):
        super().__init__(out)
        self.failing, self.left, self.launched = failing, left, []

    def launch(self, jobs, **_):
        self.launched.append([job.name for job in jobs])
        return [job for job in jobs if job.name in self.left]

    def is_finished(self, job):
        launched = any(job.name in names for names in self.launched)
        return launched and job.name not in (*self.failing, *self.left)

    def error(self, job):
        return "exit status 1" if job.name in self.failing else None


@pytest.mark.parametrize(
    ("failing", "left", "launched", "status"),
    [
        ((), (), [["first"], ["alone", "after"]], 0),
        (("first",), (), [["first"], ["alone"]], 1),
        ((), ("first",), [["first"]], LEFT_OVER),
        (("alone",), (), [["first"], ["alone", "after"]], 1),
    ],
)
def test_a_run_waits_for_the_one_that_it_needs(
    failing, left, launched, status, tmp_path
):
    jobs = Launches(tmp_path, failing=failing, left=left)
    alone, after, first = (Job(n, DIGITS, {}) for n in ("alone", "after", "first"))
    options = argparse.Namespace(dry_run=False, deadline=math.inf, retry=False)
    written = []
    found = run_study(
        "study", jobs, [alone, after, first], options,
        needs={after: first}, write=lambda: written.append(len(jobs.launched)),
    )  # fmt: skip
    assert (found, jobs.launched, written) == (status, launched, [len(launched)])
    assert (tmp_path / "study.tar.gz").exists()


def test_a_run_is_packed_with_its_state_while_others_are_compared_with_it(tmp_path):
    jobs = Launches(tmp_path, failing=(), left=("other",))
    base, other = (Job(n, DIGITS, {}) for n in ("base", "other"))
    checkpoint = jobs.folder(base).path / "checkpoints/6/state"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    jobs.folder(base).write("results", {"num_steps": 6})
    options = argparse.Namespace(dry_run=False, deadline=math.inf, retry=False)
    for left, bases, is_packed in (
        (("other",), {other: base}, True),
        (("other",), {base: other}, True),
        ((), {other: base}, False),
    ):
        jobs.left = left
        run_study("study", jobs, [base, other], options,
                  bases=bases, write=lambda: None)  # fmt: skip
        with tarfile.open(tmp_path / "study.tar.gz") as tar:
            assert any("checkpoints/6" in n for n in tar.getnames()) == is_packed


def test_mean_and_deviation():
    assert show_mean([0.9, None, 0.94], ".3f") == "0.920" and show_mean([], "g") == "–"
    assert show_mean_std([0.9, 0.92, 0.94]) == "92.00 ± 2.00 (3)"
    assert show_mean_std([0.9]) == "90.00 (1)" and show_mean_std([]) == "–"


@pytest.mark.slow
def test_a_link_in_a_folder_of_a_run_is_not_followed(tmp_path):
    """Neither its log, nor a folder in it that has a job already."""
    jobs, job = Jobs(tmp_path / "out"), Job("broken", DIGITS, NO_DATA)
    jobs.launch([job])
    victim, log = tmp_path / "victim", jobs.folder(job).path / "log.txt"
    victim.write_text("mine")
    log.unlink()
    log.symlink_to(victim)
    with pytest.raises(UserError, match=r"log\.txt cannot be written"):
        jobs.launch([job], retry=True)
    assert victim.read_text() == "mine"
    log.unlink()
    jobs.folder(job).checkpoints.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="checkpoints is a symbolic link"):
        jobs.launch([job], retry=True)


# Calls a command on a small disk that is full, then has room, then is full again.
FULL_DISK = """
disk=$1; shift
mount -t tmpfs -o size=8m none "$disk" || exit 99
cat /dev/zero > "$disk/filler" 2>/dev/null
"$@"; echo "status $?" >&2
rm "$disk/filler"
"$@"; echo "status $?" >&2
cp -r "$disk/out" "$disk/../before"
cat /dev/zero > "$disk/filler" 2>/dev/null
"$@"; echo "status $?" >&2
diff -r "$disk/out" "$disk/../before" >&2 && echo "nothing changed" >&2
"""


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_keeps_tables_and_archives(tmp_path):
    """No run is started: jobs, tables and archive are all that is written."""
    disk = tmp_path / "disk"
    disk.mkdir()
    require_mount(disk)
    result = subprocess.run(
        ["unshare", "-rm", "sh", "-c", FULL_DISK, "sh", str(disk),
         sys.executable, "-m", "experiments.reproduce", f"--out={disk}/out",
         "--small", "--seeds=1", "--time_limit_seconds=0"],
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    first, status, second, third, same = result.stderr.splitlines()[:5]
    assert (status, second) == ("status 1", f"status {LEFT_OVER}"), result.stderr
    errors = [line for line in result.stderr.splitlines() if "error: " in line]
    assert len(errors) == 2 and "Traceback" not in result.stderr
    for error in errors:
        assert error.startswith("error: ") and "No space left on device" in error
    assert first == errors[0] and "/runs/" in first
    assert third == errors[1] and same == "status 1"
    assert "nothing changed" in result.stderr
    assert (tmp_path / "before" / "reproduce.tar.gz").stat().st_size > 100
