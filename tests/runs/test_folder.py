"""The files of a run folder, and what may change when a run goes on."""

import json

import jax
import pytest

from vit_jax.config import make_config
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder


def test_a_run_folder_explains_itself(tiny_run):
    workdir, results = tiny_run
    stored = {
        path.stem: json.loads(path.read_text()) for path in workdir.glob("*.json")
    }
    assert set(stored) == {"config", "dataset", "environment", "lock", "results"}
    assert stored["results"] == results
    assert stored["config"]["model"]["mlp_ratio"] == 4.0  # filled in by the model
    assert len(stored["config"]["data"]["mean"]) == 1  # and by the data
    assert stored["dataset"]["image_shape"] == [8, 8, 1]
    assert stored["environment"]["jax"] == jax.__version__
    assert (workdir / "figures" / "training_curves.png").stat().st_size > 10_000
    assert {p.name for p in (workdir / "checkpoints").iterdir()} >= {"6"}


def test_settings_that_only_change_the_display_may_change(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.require_same(make_config({"seed": 1}), {})  # The folder is empty.
    folder.start(make_config({}), {"num_examples": 5})
    folder.require_same(make_config({"log_every": "1 epoch"}), {"num_examples": 5})
    with pytest.raises(UserError, match="seed: 0 -> 1"):
        folder.require_same(make_config({"seed": 1}), {"num_examples": 5})
    with pytest.raises(UserError, match=r"dataset: .*5.* -> .*6"):
        folder.require_same(make_config({}), {"num_examples": 6})


def test_a_setting_of_a_later_version_has_its_default_in_older_runs(tmp_path):
    folder = RunFolder(tmp_path)
    folder.start(make_config({}), {})
    older = folder.read("config")
    del older["optim"]["ema_decay"]
    folder.write("config", older)
    folder.require_same(make_config({}), {})


def test_files_hold_json_that_everyone_reads(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_metrics({"step": 1, "loss": float("nan")})
    assert folder.read_metrics() == [{"step": 1, "loss": None}]
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()


def test_a_full_disk_is_a_sentence(tmp_path):
    folder = RunFolder(tmp_path)
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(UserError, match="No space left"):
        folder.append_metrics({"step": 1})


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        RunFolder(tmp_path / "file").create()


def test_a_cut_off_last_line_of_metrics_is_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    for step in (1, 2, 3):
        folder.append_metrics({"step": step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    assert [r["step"] for r in folder.read_metrics()] == [1, 2, 3]
    folder.forget_metrics_after(2)
    assert [r["step"] for r in folder.read_metrics()] == [1, 2]
