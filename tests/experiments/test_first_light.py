"""First light at reduced size: stopped, resumed, and what its parts find."""

import argparse
import importlib
import json
import shutil
import signal
import tarfile
import time

import pytest

from experiments.first_light import main
from experiments.first_lighting import parts, resume
from experiments.first_lighting.parts import equal_seconds, make_parts, read_forecast
from experiments.first_lighting.session import Part, Session, outcome_of
from experiments.first_lighting.training import describe_training, summarize
from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import LEFT_OVER
from vit_jax.config import load_config_file
from vit_jax.errors import UserError
from vit_jax.parallel.signals import StopSignals
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.lock import lock


def make_session(seconds, **options):
    return Session(
        argparse.Namespace(**{"small": False, "equal_minutes": None} | options),
        time.monotonic() + seconds,
        StopSignals(),
    )


@pytest.mark.parametrize("small", [False, True])
def test_parts_have_names_of_their_own_and_small_ones_are_some_of_them(small):
    names = [part.name for part in make_parts(small)]
    assert len(names) == len(set(names)) >= 10
    assert set(names) <= {part.name for part in make_parts(False)}
    assert all(isinstance(part, Part) for part in make_parts(small))


@pytest.mark.slow
def test_the_first_steps_are_those_of_every_config_that_is_trained():
    configs = {
        part.run.args[1] for part in make_parts(False) if part.name.startswith("steps")
    }
    assert len(configs) == 12
    for config in configs:
        assert load_config_file(config).data.name == "cifar10"


@pytest.mark.parametrize(
    "left, expected", [(620, 225), (5000, 480), (100, 60)], ids=["some", "much", "few"]
)
def test_both_models_get_what_is_left(left, expected):
    assert equal_seconds(make_session(left)) == pytest.approx(expected, abs=1)
    assert equal_seconds(make_session(left, equal_minutes=3)) == 180


def test_a_part_without_time_is_not_started(tmp_path, capsys):
    arguments = [f"--data={tmp_path}", f"--out={tmp_path / 'out'}", "--minutes=0.9"]
    assert main(arguments) == LEFT_OVER
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"first_light.tar.gz", "lock.json"}
    assert "left: race, equal_time, steps-vit_cifar, " in capsys.readouterr().out


def test_a_finished_part_is_skipped_and_its_summary_shown(tmp_path, capsys):
    result = {"finished": True, "summary": ["0.97 of the forecast"]}
    (tmp_path / "race.json").write_text(json.dumps(result))
    arguments = [f"--data={tmp_path}", f"--out={tmp_path}", "--minutes=60"]
    assert main([*arguments, "--only=race"]) == 0
    assert "race: 0.97 of the forecast" in capsys.readouterr().out
    with tarfile.open(tmp_path / "first_light.tar.gz") as tar:
        assert tar.getnames() == ["race.json"]


def test_slips_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"no part 'rase'.*race"):
        main([f"--data={tmp_path}", f"--out={tmp_path}", "--minutes=1", "--only=rase"])
    with pytest.raises(UserError, match="--data is the folder or the archive"):
        main([f"--data={tmp_path / 'no'}", "--minutes=1"])


def test_both_models_keep_their_time(tmp_path):
    plan = tmp_path / "equal_time" / "plan.json"
    plan.parent.mkdir()
    plan.write_text('{"seconds": 300}')
    arguments = [f"--data={tmp_path}", f"--out={tmp_path}", "--minutes=0.1"]
    assert main([*arguments, "--equal_minutes=5"]) == LEFT_OVER
    with pytest.raises(UserError, match="take 5 minutes; leave it out"):
        main([*arguments, "--equal_minutes=8"])


@pytest.mark.slow
def test_a_worker_is_stopped_in_time_and_by_a_signal():
    start = time.monotonic()
    assert make_session(0.3).run("http.server", "0") is None
    assert time.monotonic() - start < 20
    session = make_session(1000)
    session.signals.received = signal.SIGTERM
    assert session.run("http.server", "0") is None
    assert time.monotonic() - start < 40


def test_statuses():
    assert outcome_of(0)["finished"]
    for status in (None, LEFT_OVER):
        assert not outcome_of(status)["finished"] and "error" not in outcome_of(status)
    assert outcome_of(1)["error"] == "exit status 1"


def test_a_forecast_is_found_by_config_and_device(tmp_path, monkeypatch):
    milliseconds = {"floor": 10.0, "expected": 20.0, "pessimistic": 30.0}
    config = "configs/resnet_cifar.py:fast"
    monkeypatch.setattr(parts, "FORECASTS", tmp_path)
    assert read_forecast(config, "NVIDIA H200") is None
    folder = tmp_path / "rtx4090" / "any"
    folder.mkdir(parents=True)
    content = {"config": config, "step_ms": milliseconds}
    (folder / "forecast.json").write_text(json.dumps(content))
    found = read_forecast(config, "NVIDIA GeForce RTX 4090")
    assert found == milliseconds
    assert read_forecast(config, "NVIDIA H200") is None
    assert read_forecast(config, "NVIDIA GeForce RTX 4090 D") is None
    assert read_forecast("configs/vit_cifar.py", "NVIDIA GeForce RTX 4090") is None


def test_accuracy_over_seconds(tiny_run, tmp_path):
    shutil.copytree(tiny_run[0], tmp_path / "runs" / "tiny")
    RunFolder(tmp_path / "runs" / "tiny").write("job", {"wall_seconds": 30.0})
    shutil.copytree(tiny_run[0], tmp_path / "runs" / "cut")
    (tmp_path / "runs" / "cut" / "results.json").unlink()
    runs = describe_training(tmp_path, with_test=True)
    without = describe_training(tmp_path, with_test=False)
    assert "test_accuracy" not in without["tiny"]
    assert "not finished" not in summarize(without)[1]
    seconds = [record["seconds"] for record in runs["tiny"]["evaluations"]]
    assert len(seconds) == 2 and 0 < seconds[0] < seconds[1]
    assert runs["tiny"]["test_accuracy"] == tiny_run[1]["test"]["accuracy"]
    assert runs["tiny"]["epochs"] == tiny_run[1]["num_epochs"]
    assert runs["tiny"]["wall_seconds"] == 30 and "wall_seconds" not in runs["cut"]
    assert runs["cut"]["evaluations"] == runs["tiny"]["evaluations"]
    cut, tiny = summarize(runs)
    assert cut.endswith("not finished") and tiny.endswith("% test")


@pytest.mark.slow
def test_the_first_steps_of_a_config(cifar10_dir, tmp_path):
    arguments = [f"--data={cifar10_dir}", f"--out={tmp_path}", "--minutes=30"]
    assert main([*arguments, "--small", "--only=steps-vit_cifar"]) == 0
    result = json.loads((tmp_path / "steps-vit_cifar.json").read_text())
    assert result["finite"] and result["same_bits"] and result["compilations"] == 0
    assert result["platforms"] == ["cpu"] and result["dtype"] == "float32"
    assert len(result["losses"]) == 20 and 1 < min(result["losses"]) < 4
    assert result["mean_losses"][0] == pytest.approx(sum(result["losses"]) / 20)
    # The stem and the patches, forward and backward, and at least as many products.
    assert set(result["products"]) == {"f32 x f32 -> f32"}
    assert result["products"]["f32 x f32 -> f32"] > 20
    assert result["step_seconds"]["median"] > 0
    with tarfile.open(tmp_path / "first_light.tar.gz") as tar:
        assert "steps-vit_cifar.json" in tar.getnames()


@pytest.mark.slow
def test_the_comparison_of_a_resumed_run(tmp_path):
    """With our smallest config; those of `CONFIGS` compile for half a minute."""
    settings = resume.SETTINGS | {
        "num_steps": 30, "eval_every": "30 steps", "checkpoint_every": "30 steps",
        "log_every": "2 steps", "batch_size": 16, "model.depth": 1,
    }  # fmt: skip
    whole, pieces = (
        Job(name, "configs/vit_digits.py", settings) for name in ("whole", "pieces")
    )
    jobs = Jobs(tmp_path)
    (step,) = resume.interrupt(jobs, [pieces]).values()
    assert 0 < step < 30
    assert jobs.launch([whole]) == []
    # The interrupted run has fewer steps until it is resumed.
    assert not resume.compare(jobs, whole, pieces)["same_bits"]
    assert jobs.launch([pieces]) == []
    same = {"same_bits": True, "largest_difference": 0}
    assert resume.compare(jobs, whole, pieces) == same


def test_two_calls_do_not_share_a_folder(tmp_path):
    arguments = [f"--data={tmp_path}", f"--out={tmp_path}", "--minutes=0.1"]
    with lock(tmp_path / "lock.json"), pytest.raises(UserError, match="in use by"):
        main(arguments)
    assert main(arguments) == LEFT_OVER


@pytest.mark.slow
@pytest.mark.parametrize("name", ["race", "equal_time", "arms-flagship", "studies"])
def test_a_part_that_trains_starts_a_command_that_knows_its_flags(
    name, tmp_path, monkeypatch, capsys
):
    """The command only shows its runs; test_launch kills and resumes real ones."""

    def show_runs(session, module, *arguments):
        command = importlib.import_module(module)
        return command.main([*arguments, "--small", "--dry_run"])

    monkeypatch.setattr(Session, "run", show_runs)
    (part,) = (part for part in make_parts(True) if part.name == name)
    session = make_session(1000, small=True, data=tmp_path, out=tmp_path / "out")
    result = part.run(session)
    assert result["finished"] and result["runs"] == {}
    shown = capsys.readouterr().out.splitlines()
    runs = [line for line in shown if "vit_jax.main" in line]
    assert len(runs) == 2 and all(f"/out/{name}/runs/" in line for line in runs)
    length = "time_budget=1 seconds" if name == "equal_time" else "num_steps=6"
    assert all(length in line for line in runs)
