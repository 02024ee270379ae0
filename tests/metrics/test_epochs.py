"""Logged values by epoch."""

import numpy as np
import pytest

from vit_jax.metrics.epochs import epoch_means


def test_intervals_count_by_their_length():
    # Epochs of 10 steps, logged every 4 steps and at the ends of epochs.
    steps = np.array([4, 8, 10, 14, 18, 20])
    values = np.array([0.1, 0.2, 0.5, 0.6, 0.7, 1.0])
    means = epoch_means(steps, steps / 10, 3.0 * steps, values)
    np.testing.assert_allclose(means.epochs, [1, 2])
    np.testing.assert_allclose(means.seconds, [30, 60])
    expected = [0.4 * 0.1 + 0.4 * 0.2 + 0.2 * 0.5, 0.4 * 0.6 + 0.4 * 0.7 + 0.2]
    np.testing.assert_allclose(means.values, expected)


def test_ends_that_miss_the_epochs_are_followed():
    # Evaluations every 87 steps fall behind epochs of 87.3 steps.
    steps = np.union1d(np.arange(87, 8701, 87), np.arange(50, 8701, 50))
    epochs = steps / 87.3
    means = epoch_means(steps, epochs, epochs, epochs)
    assert len(means.epochs) == 100
    assert abs(means.epochs - np.arange(1, 101)).max() < 0.35
    lengths = np.diff(means.epochs)
    assert lengths.min() > 0.4 and lengths.max() < 1.6


def test_a_long_interval_is_one_window_and_an_unfinished_epoch_none():
    steps = np.array([30, 60, 64])
    means = epoch_means(steps, steps / 10, steps / 1, np.array([0.2, 0.4, 0.9]))
    np.testing.assert_allclose(means.epochs, [3, 6])
    np.testing.assert_allclose(means.values, [0.2, 0.4])
    first = epoch_means(steps[:1], steps[:1] / 1000, steps[:1] / 1, np.array([0.3]))
    assert first.epochs == [0.03] and first.values == pytest.approx([0.3])


def test_a_goal_is_reached_at_the_first_window_or_never():
    steps = np.arange(10, 60, 10)
    values = np.array([0.5, np.nan, 0.9, 0.8, 0.95])
    means = epoch_means(steps, steps / 10, steps / 2, values)
    # A value that is not finite affects the mean of its own window only.
    np.testing.assert_array_equal(means.values, values)
    assert means.first_reaching(0.9) == (3, 15)
    assert means.first_reaching(0.96) == (np.inf, np.inf)
    nothing = np.array([])
    nothing = epoch_means(nothing, nothing, nothing, nothing)
    assert np.isnan(nothing.first_reaching(0.1)).all()
