"""The chart of a comparison."""

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from tests.analysis.made import make_entry
from vit_jax.analysis import compared


def intervals(figure):
    axes = figure.axes[0]
    errors = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    return [error.lines[2][0].get_segments()[0][:, 0] for error in errors]


def test_a_run_has_an_interval_and_a_recipe_the_scatter_of_its_seeds():
    alone = [make_entry("a", accuracy=0.8)]
    seeds = [make_entry("b", accuracy=0.5), make_entry("c", accuracy=0.7, seed=1)]
    figure = compared.draw_comparison([alone, seeds])
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
    alone = compared.draw_comparison([[runs[0]]])
    both = compared.draw_comparison([[runs[0]], [runs[1]]])
    said = [{text.get_text() for text in f.axes[1].texts} for f in (alone, both)]
    assert {"training\n(CPU s)", "250"} < said[0] and "900" not in said[0]
    assert {"training\n(s)", "900"} < said[1] and "250" not in said[1]


def test_long_times_have_no_powers_of_ten():
    def seconds(*times):
        return [make_entry("a", train_seconds=t, seed=i) for i, t in enumerate(times)]

    assert compared.format_number(seconds(11873.4), "train_seconds") == "11,873"
    several = compared.format_number(seconds(6300.0, 6900.0), "train_seconds")
    assert several == "6,600 ± 424"
    assert compared.format_number(seconds(16.51), "train_seconds") == "16.51"


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
    assert compared.draw_curves(entries).axes[1].get_title() == split
    axes = compared.draw_accuracy_over_time([[entry] for entry in entries]).axes[0]
    assert axes.get_ylabel() == f"{split} accuracy (%)"
