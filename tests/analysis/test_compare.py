"""Runs side by side: tables, chart, curves, and what is refused."""

import dataclasses

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from tests.analysis.made import make_entry, table_below
from vit_jax.analysis import compare
from vit_jax.analysis.entries import group_runs, mean_and_std
from vit_jax.errors import UserError


def test_what_some_seeds_never_reached_has_no_mean():
    group = [
        make_entry("a", epochs_to_90=3.0, seconds_to_train_accuracy=np.inf),
        make_entry("b", epochs_to_90=np.inf, seconds_to_train_accuracy=np.inf),
    ]
    assert np.isnan(mean_and_std(group, "epochs_to_90")).all()
    assert mean_and_std(group, "seconds_to_train_accuracy")[0] == np.inf
    assert compare.format_number(group, "epochs_to_90") == "never in 1 of 2"
    assert compare.format_number(group, "seconds_to_train_accuracy") == "never"


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
    assert "## Over seeds" not in markdown  # There is one that both recipes have.
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


def test_what_was_selected_on_is_said_in_words(tmp_path):
    entries = [
        make_entry(name, accuracy=0.5, recipe=name, selected_on=name)
        for name in ("val", "test", "nothing")
    ]
    # Nothing need have been evaluated.
    entries[2].records[:] = [r for r in entries[2].records if r["split"] == "train"]
    rows = table_below(compare.write_comparison(entries, tmp_path), "# Comparison")
    assert [row["checkpoint"] for row in rows] == [
        "selected on images held out from training",
        "selected on the test split, which is optimistic",
        "the last one, because nothing was selected",
    ]


def test_the_difference_over_seeds_is_in_points():
    row = {"run": "b", "against": "a", "num_seeds": 3}
    table = compare.seed_table([row | {"difference": 0.02, "low": -0.01, "high": 0.05}])
    last = table.splitlines()[-1].replace(" ", "")
    assert last == "|b|a|3|+2.00|-1.00to+5.00|"
    table = compare.seed_table([row | {"difference": 0.02, "low": np.nan}])
    assert table.splitlines()[-1].replace(" ", "") == "|b|a|3|+2.00|–|"


def test_a_p_value_is_never_zero():
    row = {"run": "a", "against": "b", "difference": 0.3, "low": 0.2, "high": 0.4}
    row |= {"only_run": 5000, "only_against": 0, "p_value": 0.0}
    assert compare.paired_table([row]).endswith(" < 1e-300  |")


def test_curves_are_of_both_splits():
    figure = compare.draw_curves([make_entry("a"), make_entry("b")])
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
    (axes,) = compare.draw_accuracy_over_time(groups).axes
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
    (axes,) = compare.draw_accuracy_over_time([[entry]]).axes
    assert axes.get_xlabel() == "training time (CPU seconds)"
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [4, 8])
    (axes,) = compare.draw_accuracy_over_time([[entry], [make_entry("b")]]).axes
    assert axes.get_xlabel() == "training time (seconds)"


def test_other_data_are_refused(tmp_path):
    entry = make_entry("other")
    images = entry.scored.dataset.images + np.uint8(1)
    dataset = dataclasses.replace(entry.scored.dataset, images=images)
    scored = dataclasses.replace(entry.scored, dataset=dataset)
    entries = [make_entry("first"), dataclasses.replace(entry, scored=scored)]
    with pytest.raises(UserError, match="first and other have different test splits"):
        compare.write_comparison(entries, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_runs_of_one_name_are_told_apart():
    assert compare.name_runs(["x/run", "y/run"]) == ["x/run", "y/run"]
    assert compare.name_runs(["x/run", "y/other"]) == ["run", "other"]


def intervals(figure):
    axes = figure.axes[0]
    errors = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    return [error.lines[2][0].get_segments()[0][:, 0] for error in errors]


def test_a_run_has_an_interval_and_a_recipe_the_scatter_of_its_seeds():
    alone = [make_entry("a", accuracy=0.8)]
    seeds = [make_entry("b", accuracy=0.5), make_entry("c", accuracy=0.7, seed=1)]
    figure = compare.draw_comparison([alone, seeds])
    # Wilson's interval of 8 of 10, and the mean ± standard deviation of two.
    expected = [[49.02, 94.33], [60 - 10 * 2**0.5, 60 + 10 * 2**0.5]]
    np.testing.assert_allclose(intervals(figure), expected, atol=0.01)
    title = figure.get_suptitle()
    assert "95% interval over the test images" in title and "over seeds" in title
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert names == ["a", "b (+1)"]


def test_time_is_that_of_the_processor_where_every_run_has_it():
    times = {"train_seconds": 900.0, "cpu_seconds": 250.0}
    runs = [make_entry("a", accuracy=0.8, **times), make_entry("b", accuracy=0.7)]
    alone = compare.draw_comparison([[runs[0]]])
    both = compare.draw_comparison([[runs[0]], [runs[1]]])
    said = [{text.get_text() for text in f.axes[1].texts} for f in (alone, both)]
    assert {"training\n(CPU s)", "250"} < said[0] and "900" not in said[0]
    assert {"training\n(s)", "900"} < said[1] and "250" not in said[1]


def test_long_times_have_no_powers_of_ten():
    def seconds(*times):
        return [make_entry("a", train_seconds=t, seed=i) for i, t in enumerate(times)]

    assert compare.format_number(seconds(11873.4), "train_seconds") == "11,873"
    several = compare.format_number(seconds(6300.0, 6900.0), "train_seconds")
    assert several == "6,600 ± 424"
    assert compare.format_number(seconds(16.51), "train_seconds") == "16.51"


@pytest.mark.parametrize(
    "chosen_on, split",
    [
        (("val", "nothing"), "validation"),
        (("test", "test"), "test"),
        (("val", "test"), "validation or test"),
    ],
)
def test_the_curves_name_the_split_that_was_scored(chosen_on, split):
    entries = [make_entry(on, selected_on=on) for on in chosen_on]
    assert compare.draw_curves(entries).axes[1].get_title() == split
    axes = compare.draw_accuracy_over_time([[entry] for entry in entries]).axes[0]
    assert axes.get_ylabel() == f"{split} accuracy (%)"
