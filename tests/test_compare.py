"""The compare command on two runs."""

import csv
import shutil

import pytest

from tests.analysis.made import make_entry, table_below
from vit_jax.analysis import compare
from vit_jax.compare import main
from vit_jax.config.settings import SELECTED
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder


@pytest.mark.slow
def test_the_command(two_runs, tiny_run, tmp_path, capsys):
    runs = [*map(str, two_runs), f"--out={tmp_path}"]
    main([*runs, "--train_accuracy=0.01"])
    markdown = (tmp_path / "comparison.md").read_text()
    assert capsys.readouterr().out == markdown
    assert {path.name for path in tmp_path.iterdir()} == {
        "comparison.md", "comparison.csv", "comparison.png", "paired.csv",
        "curves.png", "accuracy_over_time.png",
    }  # fmt: skip
    (row,) = table_below(markdown, "# Comparison")
    assert (row["run"], row["seeds"]) == ("tiny (+1)", "0, 1")
    assert row["checkpoint"] == SELECTED["val"]
    rows = list(csv.DictReader((tmp_path / "comparison.csv").read_text().splitlines()))
    results = tiny_run[1]
    for row in rows:
        assert float(row["parameters_m"]) == results["num_params"] / 1e6
        assert float(row["flops_g"]) > 0
        # A busy machine spreads the timings too far for a figure.
        assert not row["inference_ms"] or float(row["inference_ms"]) > 0
        assert float(row["accuracy"]) == results["test"]["accuracy"]
        assert float(row["loss"]) == pytest.approx(results["test"]["loss"])
        assert float(row["train_seconds"]) == pytest.approx(results["train_seconds"])
        assert row["worst_class"] == results["test"]["worst_class"]["name"]
        assert float(row["mean_auc"]) == results["test"]["macro"]["auc"]
        assert row["model"] == results["model"]
    trainable = [float(row["trainable_parameters_m"]) for row in rows]
    assert trainable == [results["num_params"] / 1e6, 0.001]
    assert [row["generalization_gap"] for row in rows] == ["", "0.25"]
    assert [row["seed"] for row in rows] == ["0", "1"]
    (test,) = csv.DictReader((tmp_path / "paired.csv").read_text().splitlines())
    assert (float(test["difference"]), float(test["p_value"])) == (0, 1)
    (row,) = table_below(markdown, "## Cost and training")
    assert float(row["epochs to ≥ 1% train accuracy"]) > 0
    assert [row["train_accuracy_goal"] for row in rows] == ["0.01"] * 2
    last = max(r["epoch"] for r in RunFolder(tiny_run[0]).read_metrics())
    assert float(rows[0]["epochs_to_train_accuracy"]) == last
    logged, test = float(rows[0]["logged_gap"]), tiny_run[1]["test"]["accuracy"]
    assert 0 <= logged + test <= 1
    for wrong in ("90", "0"):
        with pytest.raises(UserError, match=f"--train_accuracy is {wrong}.*0.9 for"):
            main([*runs, f"--train_accuracy={wrong}"])


@pytest.mark.parametrize("again", [[], ["RUN"], ["RUN/../tiny"]])
def test_two_runs_are_needed(tiny_run, tmp_path, again):
    run = str(tiny_run[0])
    runs = [run, *(name.replace("RUN", run) for name in again)]
    with pytest.raises(UserError, match="at least two"):
        main([*runs, f"--out={tmp_path}"])


def test_mistakes_on_the_command_line(two_runs, tmp_path):
    with pytest.raises(UserError, match="no run folder"):
        main([str(two_runs[0]), str(tmp_path), f"--out={tmp_path / 'out'}"])
    with pytest.raises(UserError, match=r"--data_sorce=x.*--data_source"):
        main([*map(str, two_runs), "--data_sorce=x", f"--out={tmp_path / 'out'}"])
    first, second = map(str, two_runs)
    with pytest.raises(UserError, match="a fraction above 0"):
        main([first, f"--out={tmp_path / 'out'}", second, "--train_accuracy=2"])
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        compare.write_comparison(
            [make_entry("a"), make_entry("b")], tmp_path / "file" / "out"
        )


def test_every_folder_is_looked_at_before_a_run_is_loaded(tiny_run, tmp_path):
    unloadable = tmp_path / "unloadable"
    unloadable.mkdir()
    shutil.copy(tiny_run[0] / "config.json", unloadable)
    arguments = [str(unloadable), str(tmp_path / "none"), f"--out={tmp_path}"]
    with pytest.raises(UserError, match="none is no run folder"):
        main(arguments)
    shutil.copy(tiny_run[0] / "dataset.json", unloadable)
    dataset = RunFolder(unloadable).read("dataset")
    RunFolder(unloadable).write("dataset", dataset | {"image_shape": [9, 8, 1]})
    with pytest.raises(UserError, match="unloadable and tiny have different test"):
        main([str(unloadable), str(tiny_run[0]), f"--out={tmp_path}"])
