"""A finished run: its folder, loading it, predicting, scoring it again."""

import json
import shutil

import jax
import numpy as np
import pytest

import vit_jax
from vit_jax import data, evaluate
from vit_jax.config import make_config
from vit_jax.errors import UserError
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training import scoring
from vit_jax.training.train import train_and_evaluate


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


def test_results_hold_what_others_rely_on(tiny_run):
    _, results = tiny_run
    assert results["model"] == "vit" and results["selected_on"] == "val"
    assert results["num_params"] == 3_850
    assert results["best_step"] in (3, 6) and results["num_steps"] == 6
    assert results["test"]["num_examples"] == 359
    assert results["val"]["num_examples"] == 100
    for split in ("val", "test"):
        assert 0 <= results[split]["accuracy"] <= 1 and results[split]["loss"] > 0
        assert len(results[split]["per_class"]) == 10
    assert results["train_seconds"] > 0 and results["images_per_second"] > 0
    assert results["device"] == "cpu"


def test_metrics_lines(tiny_run):
    workdir, results = tiny_run
    records = RunFolder(workdir).read_metrics()
    steps = [(r["split"], r["step"]) for r in records]
    assert steps == [
        ("train", 2), ("train", 3), ("val", 3), ("train", 4), ("train", 6), ("val", 6)
    ]  # fmt: skip
    for record in records:
        assert {"epoch", "loss", "accuracy", "seconds"} <= record.keys()
        if record["split"] == "train":
            seconds = record["step_seconds"]
            assert record["images_per_second"] == pytest.approx(16 / seconds)
            assert record["epoch_seconds"] == pytest.approx(1338 / 16 * seconds)
    best = [r for r in records if r["split"] == "val"][
        -1 if results["best_step"] == 6 else 0
    ]
    assert best["accuracy"] == results["val"]["accuracy"]
    assert best["loss"] == results["val"]["loss"]


@pytest.mark.parametrize("which", ["best", "latest", 6, "6"])
def test_load_run_predicts_what_training_scored(tiny_run, which):
    workdir, results = tiny_run
    run = vit_jax.load_run(str(workdir), checkpoint=which)
    assert run.step == (results["best_step"] if which == "best" else 6)
    assert run.class_names == tuple("0123456789")
    test = data.load(run.config.data)["test"]
    probabilities = run.predict(test.images)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    if run.step == results["best_step"]:
        accuracy = np.mean(probabilities.argmax(1) == test.labels)
        assert accuracy == pytest.approx(results["test"]["accuracy"])
        loss = -np.log(probabilities[np.arange(len(test)), test.labels]).mean()
        assert loss == pytest.approx(results["test"]["loss"], rel=1e-4)
    logits = run.model.apply(run.variables, run.normalize(test.images[:3]), train=False)
    np.testing.assert_allclose(
        jax.nn.softmax(logits), probabilities[:3], rtol=1e-4, atol=1e-6
    )


def test_calibrated_probabilities_are_those_at_the_stored_temperature(
    copied_run, tiny_run
):
    folder = RunFolder(copied_run)
    results = folder.read("results")
    best = results["best_step"]
    calibration = {"calibration": {"after": {"temperature": 2.5}}}
    results["test"] |= calibration
    # Another checkpoint has a temperature of its own, or none.
    results["other_checkpoints"] = {"3": {"val": {}}, "6": {"val": {}}}
    folder.write("results", results)
    run = load_run(copied_run)
    assert run.temperature == 2.5
    other = load_run(copied_run, checkpoint=9 - best)
    assert other.temperature == 1
    images = np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1)
    logits = run.model.apply(run.variables, run.normalize(images), train=False)
    found = run.predict(images, calibrated=True)
    np.testing.assert_allclose(found, jax.nn.softmax(logits / 2.5), rtol=1e-4)
    np.testing.assert_allclose(
        run.predict(images), jax.nn.softmax(logits), rtol=1e-4, atol=1e-6
    )


def test_predict_refuses_other_shapes(tiny_run):
    run = load_run(tiny_run[0])
    with pytest.raises(UserError, match=r"\(32, 32, 3\).*\(8, 8, 1\)"):
        run.predict(np.zeros((1, 32, 32, 3), np.uint8))


def test_what_is_no_run_is_said_so(tmp_path, tiny_run):
    with pytest.raises(UserError, match="no run folder"):
        load_run(tmp_path / "nothing")
    with pytest.raises(UserError, match="5"):
        load_run(tiny_run[0], checkpoint=5)
    broken = tmp_path / "broken"
    shutil.copytree(tiny_run[0], broken)
    (broken / "config.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        load_run(broken)


def test_relative_folders_work(tiny_run, monkeypatch):
    monkeypatch.chdir(tiny_run[0].parent)
    assert load_run("tiny").workdir == tiny_run[0]


@pytest.mark.parametrize("batch_size", [1, 7, 100, 359, 500])
def test_every_example_is_scored_exactly_once(tiny_run, batch_size):
    run = load_run(tiny_run[0])
    images = data.load(run.config.data)["test"].images
    mesh = meshes.make_mesh(1)
    step = scoring.make_eval_step(run.config.data, run.model, mesh)
    images = images[:50] if batch_size == 1 else images
    logits = scoring.score_split(
        run.variables, images, eval_step=step, batch_size=batch_size, mesh=mesh
    )
    assert len(logits) == len(images)
    np.testing.assert_allclose(
        jax.nn.softmax(logits), run.predict(images), rtol=1e-4, atol=1e-6
    )


def test_the_evaluate_command(copied_run, tiny_run, capsys):
    evaluate.main([f"--workdir={copied_run}"])
    out = capsys.readouterr().out
    assert "359 images" in out and out.count("\n") == 12
    folder = RunFolder(copied_run)
    # Scoring the selected checkpoint again gives the same numbers again.
    assert folder.read("results") == tiny_run[1]
    evaluate.main([f"--workdir={copied_run}", "--checkpoint=3", "--split=train"])
    results = folder.read("results")
    place = results if results["best_step"] == 3 else results["other_checkpoints"]["3"]
    assert place["train"]["num_examples"] == 1338
    assert results["test"] == tiny_run[1]["test"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--split=tset"], 'did you mean "test"'),
        (["--checkpoint=17"], "17"),
        (["--data_sorce=digits"], '"--data_source"'),
        (["--config.data.dir=x"], '"--data_dir"'),
        (["--eval_batch_size=0"], "eval_batch_size is 0"),
        (["--wrokdir=x"], '"--workdir"'),
        (["--config.model.depth=3"], "of a trained run's settings only --data_source"),
    ],
)
def test_mistakes_on_evaluates_command_line(copied_run, arguments, words):
    with pytest.raises(UserError, match=words):
        evaluate.main([f"--workdir={copied_run}", *arguments])


def test_settings_that_only_change_the_display_may_change(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    folder.require_same(make_config({"seed": 1}), {})  # nothing there yet
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


@pytest.fixture(scope="module")
def last_epoch_run(tiny_config, tmp_path_factory):
    """(folder, results) of a run that holds nothing out and selects nothing."""
    workdir = tmp_path_factory.mktemp("runs") / "last"
    config = tiny_config(data__validation=0, data__select_on="nothing")
    return workdir, train_and_evaluate(config, workdir)


@pytest.mark.slow
def test_nothing_selected(last_epoch_run):
    workdir, results = last_epoch_run
    assert results["selected_on"] == "nothing" and results["val"] is None
    assert results["best_step"] == results["num_steps"] == 6
    splits = {record["split"] for record in RunFolder(workdir).read_metrics()}
    assert splits == {"train"}, "the test split is scored once, at the end"
    assert load_run(workdir).step == 6, "best is the last where nothing was selected"
    assert train_and_evaluate(load_run(workdir).config, workdir) == results


@pytest.mark.slow
def test_report_where_nothing_was_held_out(last_epoch_run):
    workdir, _ = last_epoch_run
    evaluate.main([f"--workdir={workdir}", "--report"])
    test = RunFolder(workdir).read("results")["test"]
    assert test["calibration"]["after"]["temperature"] == 1
    assert test["generalization_gap"] is not None
    assert (workdir / "report.html").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule__name": "plateau"},
        {"early_stopping__patience": 2},
        {"early_stopping__target": 0.9},
    ],
)
def test_rules_that_wait_for_evaluations_need_some(tiny_config, tmp_path, changes):
    config = tiny_config(data__validation=0, data__select_on="nothing", **changes)
    with pytest.raises(UserError, match="no images are held out"):
        train_and_evaluate(config, tmp_path)


@pytest.mark.slow
def test_validation_that_selects_nothing(tiny_config, tmp_path):
    results = train_and_evaluate(tiny_config(data__select_on="nothing"), tmp_path)
    assert results["best_step"] == 6 and results["val"]["num_examples"] == 100


@pytest.mark.slow
def test_a_run_of_an_earlier_version_loads(tiny_config, tmp_path):
    config = tiny_config(data__validation=0, data__select_on="test")
    results = train_and_evaluate(config, tmp_path)
    assert results["selected_on"] == "test"
    file = tmp_path / "config.json"
    saved = json.loads(file.read_text())
    saved["data"]["validation"] = "test"
    del saved["data"]["select_on"]
    saved["model"] |= {"position_init": "zeros", "attention_init": "trunc_normal"}
    for key in ("layer_init", "token_init", "mimetic_init"):
        del saved["model"][key]
    file.write_text(json.dumps(saved))
    run = load_run(tmp_path)
    assert run.config.data.select_on == "test" and run.config.data.validation == 0
    assert train_and_evaluate(config, tmp_path) == results
