"""The files of a run folder, and what may change when a run goes on."""

import json

import jax
import pytest

from vit_jax.config import make_config
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder

RECORD = {"split": "train", "epoch": 1.0, "seconds": 1.0, "loss": 1.0, "accuracy": 1.0}


def started(workdir, settings, dataset):
    """The folder of a run that has saved a state."""
    folder = RunFolder(workdir)
    (folder.checkpoints / "3").mkdir(parents=True)
    folder.start(make_config(settings), dataset)
    return folder


def test_a_run_folder_explains_itself(tiny_run):
    workdir, results = tiny_run
    stored = {
        path.stem: json.loads(path.read_text()) for path in workdir.glob("*.json")
    }
    assert set(stored) == {"config", "dataset", "environment", "lock", "results"}
    assert stored["results"].pop("content_sha256")
    assert stored["results"] == results
    assert stored["config"]["model"]["mlp_ratio"] == 4.0  # filled in by the model
    assert len(stored["config"]["data"]["mean"]) == 1  # and by the data
    assert stored["dataset"]["image_shape"] == [8, 8, 1]
    assert stored["environment"]["jax"] == jax.__version__
    assert (workdir / "figures" / "training_curves.png").stat().st_size > 10_000
    assert {p.name for p in (workdir / "checkpoints").iterdir()} >= {"6"}


def test_a_path_inside_of_a_run_leads_to_its_folder(tiny_run, tmp_path):
    workdir, _ = tiny_run
    for inside in ("config.json", "checkpoints", "checkpoints/6"):
        with pytest.raises(UserError, match=f"give the run folder {workdir}\\."):
            RunFolder(workdir / inside).read("config")
    with pytest.raises(UserError, match="give the --workdir of a training run"):
        RunFolder(tmp_path / "none").read("config")


def test_settings_that_only_change_the_display_may_change(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    assert not folder.changes(make_config({"seed": 1}), {})  # The folder is empty.
    folder.start(make_config({}), {"num_examples": {"train": 5}})
    five = {"num_examples": {"train": 5}}
    assert not folder.changes(make_config({"seed": 1}), five)  # No state is saved.
    (folder.checkpoints / "3").mkdir(parents=True)
    assert not folder.changes(make_config({"log_every": "1 epoch"}), five)
    assert folder.changes(make_config({"seed": 1}), five) == ["seed: 0 -> 1"]


def test_other_numbers_of_images_are_refused(tmp_path):
    """Among other images others are held out."""
    folder = started(tmp_path, {}, {"num_examples": {"train": 5}})
    with pytest.raises(UserError, match="images, but now there are"):
        folder.changes(make_config({}), {"num_examples": {"train": 6}})


def test_fewer_images_of_each_class_hold_the_same_images_out(tmp_path):
    folder = started(tmp_path, {}, {"num_examples": {"train": 50, "val": 5}})
    fewer = make_config({"data.train_per_class": 2})
    now = {"num_examples": {"train": 20, "val": 5}}
    assert folder.changes(fewer, now) == [
        "data.train_per_class: None -> 2", "dataset.num_examples.train: 50 -> 20"
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"but now there are \{'val': 4\}"):
        folder.changes(fewer, {"num_examples": {"train": 20, "val": 4}})


def test_a_run_of_ones_own_model_says_so_to_another_start(tmp_path):
    folder = started(tmp_path, {"model.name": "small_net", "code": "my.py"}, {})
    with pytest.raises(UserError, match=r"'small_net', which .* config.code=my.py"):
        folder.changes(make_config({}), {})


def test_files_of_somebody_else_are_not_overwritten(tmp_path):
    (tmp_path / "figures").mkdir()
    RunFolder(tmp_path).create()
    (tmp_path / "figures" / "training_curves.png").touch()
    with pytest.raises(UserError, match="files in figures/ but no config"):
        RunFolder(tmp_path).create()


def test_a_setting_of_a_later_version_has_its_default_in_older_runs(tmp_path):
    folder = started(tmp_path, {}, {})
    older = folder.read("config")
    del older["optim"]["ema_decay"]
    folder.write("config", older)
    assert not folder.changes(make_config({}), {})


def test_a_folder_of_photos_may_be_renamed_but_other_names_not(tmp_path):
    def settings(source, name):
        return {"data": {"source": source, "dir": name, "name": name}}

    folder = started(tmp_path / "a", settings("folder", "photos"), {})
    assert not folder.changes(make_config(settings("folder", "pictures")), {})
    folder = started(tmp_path / "b", settings("tfds", "cifar10"), {})
    found = folder.changes(make_config(settings("tfds", "cifar100")), {})
    assert found == ["data.name: 'cifar10' -> 'cifar100'"]


def test_records_of_steps_that_are_repeated_are_forgotten(tmp_path):
    folder = RunFolder(tmp_path)
    for step in (1, 2, 3):
        folder.append_metrics(RECORD | {"step": step})
    folder.forget_metrics_after(2)
    assert [r["step"] for r in folder.read_metrics()] == [1, 2]


def test_scores_of_checkpoints_that_are_trained_again_are_forgotten(tmp_path):
    folder = RunFolder(tmp_path)
    others = {"1": {"test": {"loss": 1.0}}, "3": {"test": {"loss": 3.0}}}
    folder.write("results", {"best_step": 2, "other_checkpoints": others})
    folder.forget_scores_after(2)
    kept = {"other_checkpoints": {"1": others["1"]}}
    assert folder.read("results") == {"best_step": 2, **kept}
    folder.forget_scores_after(1)
    assert folder.read("results") == kept


def test_what_resumed_starts_changed_is_kept(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create()
    assert folder.read_changes() == []
    for changed in ("", "after step 3: seed: 0 -> 1", "", "after step 5: x"):
        folder.start(make_config({}), {}, changed)
    assert folder.read_changes() == ["after step 3: seed: 0 -> 1", "after step 5: x"]


# ---- a run folder from a stranger: nothing outside of it is written


def test_lock_log_and_small_files_do_not_follow_links(tmp_path):
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.write_text("mine")
    run.mkdir()
    for name in ("lock.json", "metrics.jsonl", "results.json"):
        (run / name).symlink_to(victim)
    folder = RunFolder(run)
    refused = pytest.raises(UserError, match=r"lock\.json cannot be written")
    with refused, folder.locked():
        pass
    with pytest.raises(UserError, match=r"metrics\.jsonl cannot be written"):
        folder.append_metrics({"step": 1})
    folder.write("results", {"best_step": 1})
    assert victim.read_text() == "mine"
    assert folder.read_results() == {"best_step": 1}


@pytest.mark.parametrize("name", ["checkpoints", "figures", "reports", "tensorboard"])
def test_a_folder_that_leads_out_is_refused(name, tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    run.mkdir()
    (run / name).symlink_to(outside)
    refused = pytest.raises(UserError, match=rf"run/{name} is a symbolic link")
    with refused, RunFolder(run).locked():
        pass
    assert not list(outside.iterdir())
