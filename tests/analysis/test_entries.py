"""Runs in numbers: grouping, counting to accuracies, and paired tests."""

import dataclasses

import numpy as np
import pytest

from tests.analysis.made import make_entry, make_record
from tests.training.made import interrupted
from vit_jax.analysis.entries import (
    describe_training,
    group_runs,
    load_entry,
    paired_tests,
    seed_tests,
)
from vit_jax.config import make_config
from vit_jax.runs.folder import RunFolder, settings_to_compare
from vit_jax.training.train import train_and_evaluate


@pytest.mark.slow
def test_only_the_seed_joins_runs(two_runs):
    entries = [load_entry(path, path.name) for path in two_runs]
    assert [entry.selected_on for entry in entries] == ["val", "val"]
    assert [len(group) for group in group_runs(entries)] == [2]
    other = dataclasses.replace(entries[1], recipe="other")
    groups = group_runs([entries[0], other, entries[1]])
    assert [[e.name for e in group] for group in groups] == [
        ["tiny", "again"],
        ["again"],
    ]


def test_the_same_seed_twice_is_no_other_seed():
    seeds = {"a": 0, "again": 0, "b": 1, "once more": 0}
    entries = [make_entry(name, seed=seed) for name, seed in seeds.items()]
    groups = [[entry.name for entry in group] for group in group_runs(entries)]
    assert groups == [["a", "b"], ["again"], ["once more"]]


@pytest.mark.slow
def test_the_config_tells_what_was_selected_on(two_runs):
    folder = RunFolder(two_runs[1])
    before = folder.read("config")
    after = {**before, "data": {**before["data"], "select_on": "nothing"}}
    folder.write("config", after)
    assert load_entry(folder.path, "x").selected_on == "nothing"
    folder.write("config", before)


@pytest.mark.slow
def test_a_run_whose_settings_changed_on_the_way_is_no_seed_of_others(two_runs):
    folder = RunFolder(two_runs[1])
    before = folder.read("environment")
    folder.write("environment", before | {"changed": "after step 3: optim.b1: 0 -> 1"})
    groups = group_runs([load_entry(path, path.name) for path in two_runs])
    folder.write("environment", before)
    assert len(groups) == 2


@pytest.mark.slow
def test_an_unfinished_run_is_no_seed_of_finished_ones(two_runs):
    folder = RunFolder(two_runs[1])
    results = folder.read_results()
    # The second is one that is being made longer.
    for unfinished in ({}, results | {"num_steps": results["num_steps"] - 1}):
        folder.write("results", unfinished)
        entries = [load_entry(path, "x") for path in two_runs]
        folder.write("results", results)
        assert [e.name for e in entries] == ["x", "x, unfinished"]
        assert len(group_runs(entries)) == 2


@pytest.mark.slow
def test_a_run_that_was_not_evaluated_yet_is_compared(tiny_config, tmp_path):
    config = tiny_config(eval_every="5 steps", checkpoint_every="2 steps")
    with interrupted():  # after the second step
        train_and_evaluate(config, tmp_path)
    entry = load_entry(tmp_path, "x")
    assert (entry.name, entry.selected_on) == ("x, unfinished", "nothing")


def test_other_readers_of_the_same_images_are_one_recipe():
    first, second = (
        settings_to_compare(make_config({"data": {"name": "cifar10", "source": x}}))
        for x in ("tfds", "cifar_files")
    )
    assert first == second


def test_paired_numbers_by_hand():
    # Only b is right on images 0 to 4 and only a on image 9: b gains 4 of 10.
    a, b = make_entry("a", wrong=range(5)), make_entry("b", wrong=[9])
    (row,) = paired_tests([a, b])
    assert (row["run"], row["against"]) == ("b", "a")
    assert row["difference"] == pytest.approx(0.4)
    assert (row["only_run"], row["only_against"]) == (5, 1)
    assert row["p_value"] == pytest.approx(2 * (1 + 6) / 2**6)
    assert -1 <= row["low"] < 0.4 < row["high"] <= 1


def test_recipes_are_compared_over_the_seeds_that_both_have():
    def group(recipe, wrong_by_seed):
        return [
            make_entry(f"{recipe}{seed}", recipe=recipe, seed=seed, wrong=range(wrong))
            for seed, wrong in wrong_by_seed.items()
        ]

    first, second = group("a", {0: 4, 1: 5, 3: 0}), group("b", {1: 3, 0: 3, 2: 9})
    (row,) = seed_tests([first, second, group("c", {0: 1})])
    assert (row["run"], row["against"], row["num_seeds"]) == ("b1", "a0", 2)
    # By seed 0.1 and 0.2 more; with one degree of freedom the interval is 12.7 errors.
    assert row["difference"] == pytest.approx(0.15)
    assert row["high"] - row["low"] == pytest.approx(2 * 12.706 * 0.05, rel=1e-3)


def test_epochs_to_90():
    records = make_entry("a").records
    assert describe_training(records, 0.9)["epochs_to_90"] == np.inf
    for epoch, accuracy in ((3.5, 0.89), (4.0, 0.9), (4.5, 0.95)):
        records.append(make_record("val", epoch, accuracy=accuracy))
    assert describe_training(records, 0.9)["epochs_to_90"] == 4
    unknown = describe_training(records[:1], 0.9)
    assert unknown["epochs_to_90"] is None
    # A linear probe is evaluated without an epoch of training.
    probe = describe_training([make_record("val", 0, accuracy=0.95)], 0.9)
    assert probe["epochs_to_90"] is None and probe["train_seconds"] is not None


def test_epochs_and_seconds_to_a_train_accuracy():
    records = [
        make_record("train", epoch, accuracy=accuracy)
        for epoch, accuracy in ((0.5, 0.7), (1.0, 0.85), (1.5, 0.8), (2.0, 0.9))
    ]

    def reached(goal):
        numbers = describe_training(records, goal)
        return numbers["epochs_to_train_accuracy"], numbers["seconds_to_train_accuracy"]

    # Means over epochs count, not over intervals: 0.775, and then 0.85.
    assert reached(0.77) == (1, 2)
    assert reached(0.84) == (2, 4)
    assert reached(0.9) == (np.inf, np.inf)
    records.clear()
    assert reached(0.9) == (None, None)
