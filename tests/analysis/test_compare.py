"""Runs side by side: grouping, tables, paired tests, and what is refused."""

import csv
import dataclasses
import shutil

import numpy as np
import pytest

from vit_jax import data
from vit_jax.analysis import compare, compared
from vit_jax.analysis.entries import (
    Entry,
    describe_training,
    group_runs,
    load_entry,
    paired_tests,
    summarize_group,
)
from vit_jax.analysis.scored import Scored
from vit_jax.compare import main
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder


def make_record(split, epoch, **values):
    """A line of metrics.jsonl of a run with 10 steps and 2 seconds an epoch."""
    times = {"step": round(10 * epoch), "epoch": epoch, "seconds": 2.0 * epoch}
    return {"split": split, **times, **values}


def cells_of(line):
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def table_below(markdown, heading):
    """Rows of the first table below a heading, each by its columns' names."""
    lines = markdown.split(heading + "\n\n")[1].splitlines()
    head, _, *rows = lines[: lines.index("")]
    return [dict(zip(cells_of(head), cells_of(r), strict=True)) for r in rows]


_TIMED = {"lower_quartile": 1.0, "upper_quartile": 1.25}
LATENCY = {
    "device": "cpu",
    "dtype": "float32",
    "num_cores": 2,
    "other_cores": 0.5,
    "batch_1": _TIMED,
    "batch_128": _TIMED,
}


def make_entry(
    name, *, wrong=(), recipe="r", seed=0, selected_on="val", worst="x", **numbers
):
    """A run on ten images of two classes, wrong where `wrong` says."""
    labels = np.arange(10, dtype=np.int32) % 2
    images = np.zeros((10, 2, 2, 1), np.uint8)
    predicted = np.where(np.isin(np.arange(10), wrong), 1 - labels, labels)
    return Entry(
        name=name,
        model="vit",
        seed=seed,
        selected_on=selected_on,
        recipe=recipe,
        records=[
            make_record("train", 1, loss=1.5, accuracy=0.4),
            make_record("val", 1, loss=1.2, accuracy=0.5),
            make_record("train", 2, loss=None, accuracy=0.6),
            make_record("val", 2, loss=1.1, accuracy=0.7),
        ],
        scored=Scored(
            data.Dataset(images, labels, ("x", "y")),
            np.eye(2, dtype=np.float32)[predicted],
        ),
        worst_class=worst,
        goal=0.85,
        latency=LATENCY,
        numbers=dict.fromkeys(compared.COLUMNS) | numbers,
    )


@pytest.fixture(scope="module")
def two_runs(tiny_run, tmp_path_factory):
    """The tiny run, and a copy that calls itself another seed of the same config."""
    copy = shutil.copytree(tiny_run[0], tmp_path_factory.mktemp("two") / "again")
    folder = RunFolder(copy)
    folder.write("config", folder.read("config") | {"seed": 1})
    results = folder.read("results")
    results["test"]["generalization_gap"] = 0.25
    results["num_trainable_params"] = 1000
    folder.write("results", results)
    return tiny_run[0], copy


@pytest.mark.slow
def test_the_command(two_runs, tiny_run, tmp_path, capsys):
    main([*map(str, two_runs), f"--out={tmp_path}"])
    markdown = (tmp_path / "comparison.md").read_text()
    assert capsys.readouterr().out == markdown
    assert {path.name for path in tmp_path.iterdir()} == {
        "comparison.md", "comparison.csv", "comparison.png", "paired.csv",
        "curves.png", "accuracy_over_time.png",
    }  # fmt: skip
    (row,) = table_below(markdown, "# Comparison")
    assert (row["run"], row["seeds"]) == ("tiny (+1)", "0, 1")
    assert row["selected on"] == "validation split"
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


@pytest.mark.slow
def test_only_the_seed_joins_runs(two_runs):
    entries = [load_entry(path, path.name) for path in two_runs]
    assert [len(group) for group in group_runs(entries)] == [2]
    other = dataclasses.replace(entries[1], recipe="other")
    groups = group_runs([entries[0], other, entries[1]])
    assert [[e.name for e in group] for group in groups] == [
        ["tiny", "again"],
        ["again"],
    ]


def test_groups_have_mean_and_standard_deviation():
    group = [
        make_entry("a", accuracy=0.5, epochs_to_90=3.0),
        make_entry("b", accuracy=0.7),
    ]
    numbers = summarize_group(group)
    assert numbers["accuracy"] == pytest.approx((0.6, 0.02**0.5))
    # One of the two never got there: a mean of the other alone would flatter.
    assert np.isnan(numbers["epochs_to_90"]).all()
    mean, std = summarize_group(group[:1])["accuracy"]
    assert mean == 0.5 and np.isnan(std)


def test_what_some_seeds_never_reached_has_no_mean():
    group = [
        make_entry("a", epochs_to_90=3.0, seconds_to_train_accuracy=np.inf),
        make_entry("b", epochs_to_90=np.inf, seconds_to_train_accuracy=np.inf),
    ]
    numbers = summarize_group(group)
    assert np.isnan(numbers["epochs_to_90"]).all()
    assert numbers["seconds_to_train_accuracy"][0] == np.inf
    assert compared.format_number(group, "epochs_to_90") == "never in 1 of 2"
    assert compared.format_number(group, "seconds_to_train_accuracy") == "never"


def test_markdown_shows_the_numbers(tmp_path):
    entries = [
        make_entry("a", accuracy=0.5, parameters_m=1.5, worst_f1=0.4, worst="cat"),
        make_entry("b", accuracy=0.7, parameters_m=1.5, worst_f1=0.6, seed=3),
        make_entry(
            "c|d",
            recipe="s",
            accuracy=0.25,
            epochs_to_train_accuracy=2.5,
            generalization_gap=0.021,
            logged_gap=-0.034,
            worst_f1=0.125,
        ),
    ]
    markdown = compare.write_comparison(entries, tmp_path)
    first, second = table_below(markdown, "# Comparison")
    assert (first["run"], first["model"], first["seeds"]) == ("a (+1)", "vit", "0, 3")
    assert first["test accuracy (%)"] == "60.00 ± 14"
    assert first["worst-class F1"] == "0.5000 ± 0.14 (cat, x)"
    assert second["run"] == "c\\|d" and second["test accuracy (%)"] == "25.00"
    assert second["worst-class F1"] == "0.1250 (x)"
    assert second["gap, train split scored (points)"] == "2.10"
    assert second["gap, train as logged (points)"] == "-3.40"
    first, second = table_below(markdown, "## Cost and training")
    assert first["parameters (M)"] == "1.5"
    assert first["epochs to ≥ 85% train accuracy"] == "–"
    assert second["epochs to ≥ 85% train accuracy"] == "2.5"


@pytest.mark.parametrize(
    "selected_on, words",
    [
        ("val", "validation split"),
        ("test", "test split"),
        ("nothing", "last epoch, nothing selected"),
    ],
)
def test_what_was_selected_on_is_said_in_words(tmp_path, selected_on, words):
    b = make_entry("b", accuracy=0.5, recipe="s", selected_on=selected_on)
    entries = [make_entry("a", accuracy=0.7), b]
    b.records[:] = [r for r in b.records if r["split"] == "train"]
    rows = table_below(compare.write_comparison(entries, tmp_path), "# Comparison")
    assert rows[1]["selected on"] == words


@pytest.mark.slow
def test_the_config_tells_what_was_selected_on(two_runs):
    folder = RunFolder(two_runs[1])
    before = folder.read("config")
    after = {**before, "data": {**before["data"], "select_on": "nothing"}}
    folder.write("config", after)
    assert load_entry(folder.path, "x").selected_on == "nothing"
    folder.write("config", before)
    assert load_entry(folder.path, "x").selected_on == "val"


def test_paired_numbers_by_hand():
    # b alone is right on 0 to 4, a alone on 9; 4 of 10 for b.
    a, b = make_entry("a", wrong=range(5)), make_entry("b", wrong=[9])
    (row,) = paired_tests([a, b])
    assert (row["run"], row["against"]) == ("b", "a")
    assert row["difference"] == pytest.approx(0.4)
    assert (row["only_run"], row["only_against"]) == (5, 1)
    assert row["p_value"] == pytest.approx(2 * (1 + 6) / 2**6)
    assert -1 <= row["low"] < 0.4 < row["high"] <= 1


def test_a_p_value_is_never_zero():
    row = {"run": "a", "against": "b", "difference": 0.3, "low": 0.2, "high": 0.4}
    row |= {"only_run": 5000, "only_against": 0, "p_value": 0.0}
    assert compared.paired_table([row]).endswith(" < 1e-300  |")


def test_curves_are_of_both_splits():
    figure = compared.draw_curves([make_entry("a"), make_entry("b")])
    expected = [
        ("train, as logged", [1], [1.5]),  # the second is not finite
        ("validation", [1, 2], [1.2, 1.1]),
        ("train, as logged", [1, 2], [40, 60]),
        ("validation", [1, 2], [50, 70]),
    ]
    for axes, (title, epochs, values) in zip(figure.axes, expected, strict=True):
        assert axes.get_title() == title and len(axes.lines) == 2
        np.testing.assert_allclose(axes.lines[1].get_xdata(), epochs)
        np.testing.assert_allclose(axes.lines[1].get_ydata(), values)


def test_accuracy_over_time_groups_seeds():
    entries = [make_entry("a"), make_entry("b", recipe="s"), make_entry("c", seed=1)]
    groups = group_runs(entries)
    (axes,) = compared.draw_accuracy_over_time(groups).axes
    first, third, _, second, _ = axes.lines
    assert first.get_color() == third.get_color() != second.get_color()
    np.testing.assert_allclose(first.get_xdata(), [2, 4])
    np.testing.assert_allclose(first.get_ydata(), [50, 70])
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["a (2 runs, ends at 70.0)", "b (ends at 70.0)"]
    assert axes.get_xlabel() == "training time (seconds)"


def test_accuracy_over_processor_time_where_all_runs_have_it():
    entry = make_entry("a")
    for record in entry.records:
        record["cpu_seconds"] = 2 * record["seconds"]
    (axes,) = compared.draw_accuracy_over_time([[entry]]).axes
    assert axes.get_xlabel() == "training time (CPU seconds)"
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [4, 8])
    (axes,) = compared.draw_accuracy_over_time([[entry], [make_entry("b")]]).axes
    assert axes.get_xlabel() == "training time (seconds)"


def test_epochs_to_90():
    records = make_entry("a").records
    assert describe_training(records, 0.9)["epochs_to_90"] == np.inf
    for epoch, accuracy in ((3.5, 0.89), (4.0, 0.9), (4.5, 0.95)):
        records.append(make_record("val", epoch, accuracy=accuracy))
    assert describe_training(records, 0.9)["epochs_to_90"] == 4
    unknown = describe_training(records[:1], 0.9)
    assert unknown["epochs_to_90"] is None


def test_epochs_and_seconds_to_a_train_accuracy():
    records = [
        make_record("train", epoch, accuracy=accuracy)
        for epoch, accuracy in ((0.5, 0.7), (1.0, 0.85), (1.5, 0.8), (2.0, 0.9))
    ]

    def reached(goal):
        numbers = describe_training(records, goal)
        return numbers["epochs_to_train_accuracy"], numbers["seconds_to_train_accuracy"]

    # Epochs, not intervals, reach it: the first has 0.775, the second 0.85.
    assert reached(0.77) == (1, 2)
    assert reached(0.84) == (2, 4)
    assert reached(0.9) == (np.inf, np.inf)
    records.clear()
    assert reached(0.9) == (None, None)


@pytest.mark.slow
def test_the_logged_gap_is_that_of_the_last_epoch(two_runs):
    entry = load_entry(two_runs[0], "a")
    logged = entry.train_epochs("accuracy").values[-1]
    expected = logged - entry.numbers["accuracy"]
    assert entry.numbers["logged_gap"] == pytest.approx(expected)


@pytest.mark.slow
def test_the_train_accuracy_is_chosen(two_runs, tiny_run, tmp_path, capsys):
    runs = [*map(str, two_runs), f"--out={tmp_path}"]
    main([*runs, "--train_accuracy=0.01"])
    (row,) = table_below(capsys.readouterr().out, "## Cost and training")
    assert float(row["epochs to ≥ 1% train accuracy"]) > 0
    rows = list(csv.DictReader((tmp_path / "comparison.csv").read_text().splitlines()))
    assert [row["train_accuracy_goal"] for row in rows] == ["0.01"] * 2
    last = max(r["epoch"] for r in RunFolder(tiny_run[0]).read_metrics())
    assert float(rows[0]["epochs_to_train_accuracy"]) == last
    logged, test = float(rows[0]["logged_gap"]), tiny_run[1]["test"]["accuracy"]
    assert 0 <= logged + test <= 1
    for wrong in ("90", "0"):
        with pytest.raises(UserError, match=f"--train_accuracy is {wrong}.*0.9 for"):
            main([*runs, f"--train_accuracy={wrong}"])


def test_other_data_are_refused(tmp_path):
    entry = make_entry("other")
    images = entry.scored.dataset.images + np.uint8(1)
    dataset = dataclasses.replace(entry.scored.dataset, images=images)
    scored = dataclasses.replace(entry.scored, dataset=dataset)
    entries = [make_entry("first"), dataclasses.replace(entry, scored=scored)]
    with pytest.raises(UserError, match="first and other have different test splits"):
        compare.write_comparison(entries, tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        compare.write_comparison(
            [make_entry("a"), make_entry("b")], tmp_path / "file" / "out"
        )


def test_runs_of_one_name_are_told_apart():
    assert compare.name_runs(["x/run", "y/run"]) == ["x/run", "y/run"]
    assert compare.name_runs(["x/run", "y/other"]) == ["run", "other"]
