"""Runs side by side: grouping, tables, paired tests, and what is refused."""

import csv
import dataclasses
import shutil

import numpy as np
import pytest

from vit_jax import compare, comparison, data, evaluation
from vit_jax.errors import UserError
from vit_jax.folder import RunFolder


def make_entry(name, *, wrong=(), recipe="r", seed=0, **numbers):
    """A run on ten images of two classes, wrong where `wrong` says."""
    labels = np.arange(10, dtype=np.int32) % 2
    images = np.zeros((10, 2, 2, 1), np.uint8)
    predicted = np.where(np.isin(np.arange(10), wrong), 1 - labels, labels)
    return comparison.Entry(
        name=name,
        model="vit",
        seed=seed,
        selected_on="val",
        recipe=recipe,
        records=[
            {"split": "val", "epoch": 1.0, "seconds": 2.0, "accuracy": 0.5},
            {"split": "train", "epoch": 2.0, "seconds": 4.0, "accuracy": 0.6},
            {"split": "val", "epoch": 2.0, "seconds": 4.0, "accuracy": 0.7},
        ],
        scored=evaluation.Scored(
            data.Dataset(images, labels, ("x", "y")),
            np.eye(2, dtype=np.float32)[predicted],
        ),
        numbers=dict.fromkeys(compare.COLUMNS) | numbers,
    )


@pytest.fixture(scope="module")
def two_runs(tiny_run, tmp_path_factory):
    """The tiny run, and a copy that calls itself another seed of the same config."""
    copy = shutil.copytree(tiny_run[0], tmp_path_factory.mktemp("two") / "again")
    folder = RunFolder(copy)
    folder.write("config", folder.read("config") | {"seed": 1})
    results = folder.read("results")
    results["test"]["generalization_gap"] = 0.25
    folder.write("results", results)
    return tiny_run[0], copy


def test_the_command(two_runs, tiny_run, tmp_path, capsys):
    compare.main([*map(str, two_runs), f"--out={tmp_path}"])
    markdown = (tmp_path / "comparison.md").read_text()
    assert capsys.readouterr().out == markdown
    assert {path.name for path in tmp_path.iterdir()} == {
        "comparison.md", "comparison.csv", "comparison.png", "paired.csv",
        "curves.png", "accuracy_over_time.png",
    }  # fmt: skip
    assert "| tiny (+1) | vit   | 0, 1 " in markdown
    rows = list(csv.DictReader((tmp_path / "comparison.csv").read_text().splitlines()))
    results = tiny_run[1]
    for row in rows:
        assert float(row["parameters_m"]) == results["num_params"] / 1e6
        assert float(row["inference_ms"]) > 0 and float(row["flops_g"]) > 0
        assert float(row["accuracy"]) == results["test"]["accuracy"]
        assert float(row["loss"]) == pytest.approx(results["test"]["loss"])
        assert float(row["train_seconds"]) == pytest.approx(results["train_seconds"])
    assert [row["generalization_gap"] for row in rows] == ["", "0.25"]
    assert [row["seed"] for row in rows] == ["0", "1"]
    (test,) = csv.DictReader((tmp_path / "paired.csv").read_text().splitlines())
    assert (float(test["difference"]), float(test["p_value"])) == (0, 1)


def test_only_the_seed_joins_runs(two_runs):
    entries = [comparison.load_entry(path, path.name) for path in two_runs]
    assert [len(group) for group in comparison.group_runs(entries)] == [2]
    other = dataclasses.replace(entries[1], recipe="other")
    groups = comparison.group_runs([entries[0], other, entries[1]])
    assert [[e.name for e in group] for group in groups] == [
        ["tiny", "again"],
        ["again"],
    ]


def test_groups_have_mean_and_deviation():
    group = [
        make_entry("a", accuracy=0.5, epochs_to_90=3.0),
        make_entry("b", accuracy=0.7),
    ]
    numbers = comparison.summarize_group(group)
    assert numbers["accuracy"] == pytest.approx((0.6, 0.02**0.5))
    # One of the two never got there: a mean of the other alone would flatter.
    assert np.isnan(numbers["epochs_to_90"]).all()
    mean, std = comparison.summarize_group(group[:1])["accuracy"]
    assert mean == 0.5 and np.isnan(std)


def test_markdown_shows_the_numbers(tmp_path):
    entries = [
        make_entry("a", accuracy=0.5, parameters_m=1.5),
        make_entry("b", accuracy=0.7, parameters_m=1.5, seed=3),
        make_entry("c|d", recipe="s", accuracy=0.25, epochs_to_90=2.5),
    ]
    lines = compare.compare(entries, tmp_path).splitlines()
    first, second = (
        [cell.strip() for cell in line.split(" | ")] for line in lines[4:6]
    )
    assert first[:4] == ["| a (+1)", "vit", "0, 3", "60.00 ± 14"]
    assert first[5] == "1.5" and first[14] == "–"
    assert second[0] == "| c\\|d" and (second[3], second[14]) == ("25.00", "2.5")


def test_paired_numbers_by_hand():
    # b alone is right on 0 to 4, a alone on 9; 4 of 10 for b.
    a, b = make_entry("a", wrong=range(5)), make_entry("b", wrong=[9])
    (row,) = comparison.paired_tests([a, b])
    assert (row["run"], row["against"]) == ("b", "a")
    assert row["difference"] == pytest.approx(0.4)
    assert (row["only_run"], row["only_against"]) == (5, 1)
    assert row["p_value"] == pytest.approx(2 * (1 + 6) / 2**6)
    assert -1 <= row["low"] < 0.4 < row["high"] <= 1


def test_a_p_value_is_never_zero():
    row = {"run": "a", "against": "b", "difference": 0.3, "low": 0.2, "high": 0.4}
    row |= {"only_run": 5000, "only_against": 0, "p_value": 0.0}
    assert compare._test_table([row]).endswith(" < 1e-300  |")


def test_curves_are_of_the_validation_split():
    left, right = compare.draw_curves([make_entry("a"), make_entry("b")]).axes
    np.testing.assert_allclose(left.lines[0].get_xdata(), [1, 2])
    np.testing.assert_allclose(right.lines[0].get_xdata(), [2, 4])
    np.testing.assert_allclose(left.lines[1].get_ydata(), [50, 70])


def test_accuracy_over_time_groups_seeds():
    entries = [make_entry("a"), make_entry("b", recipe="s"), make_entry("c", seed=1)]
    groups = comparison.group_runs(entries)
    (axes,) = compare.draw_accuracy_over_time(groups).axes
    first, third, _, second, _ = axes.lines
    assert first.get_color() == third.get_color() != second.get_color()
    np.testing.assert_allclose(first.get_xdata(), [2, 4])
    np.testing.assert_allclose(first.get_ydata(), [50, 70])
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["a (2 runs, ends at 70.0)", "b (ends at 70.0)"]


def test_epochs_to_90(two_runs):
    folder = RunFolder(two_runs[1])
    assert comparison.load_entry(folder.path, "x").numbers["epochs_to_90"] is None
    for step, accuracy in ((7, 0.89), (8, 0.9), (9, 0.95)):
        folder.append_metrics(
            {"step": step, "split": "val", "epoch": step / 2, "accuracy": accuracy,
             "loss": 1.0, "seconds": 10.0}
        )  # fmt: skip
    assert comparison.load_entry(folder.path, "x").numbers["epochs_to_90"] == 4.0
    folder.forget_metrics_after(6)


def test_other_data_are_refused(tmp_path):
    entry = make_entry("other")
    images = entry.scored.dataset.images + np.uint8(1)
    dataset = dataclasses.replace(entry.scored.dataset, images=images)
    scored = dataclasses.replace(entry.scored, dataset=dataset)
    entries = [make_entry("first"), dataclasses.replace(entry, scored=scored)]
    with pytest.raises(UserError, match="first and other have different test splits"):
        compare.compare(entries, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("again", [[], ["RUN"], ["RUN/../tiny"]])
def test_two_runs_are_needed(tiny_run, tmp_path, again):
    run = str(tiny_run[0])
    runs = [run, *(name.replace("RUN", run) for name in again)]
    with pytest.raises(UserError, match="at least two"):
        compare.main([*runs, f"--out={tmp_path}"])


def test_mistakes_on_the_command_line(two_runs, tmp_path):
    with pytest.raises(UserError, match="no run folder"):
        compare.main([str(two_runs[0]), str(tmp_path), f"--out={tmp_path / 'out'}"])
    with pytest.raises(UserError, match=r"config\.data\.sorce"):
        compare.main(
            [*map(str, two_runs), "--config.data.sorce=x", f"--out={tmp_path / 'out'}"]
        )
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        compare.compare([make_entry("a"), make_entry("b")], tmp_path / "file" / "out")


def test_runs_of_one_name_are_told_apart():
    assert compare._names(["x/run", "y/run"]) == ["x/run", "y/run"]
    assert compare._names(["x/run", "y/other"]) == ["run", "other"]
