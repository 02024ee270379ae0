"""The order of evaluations."""

import math
import types

import pytest

from vit_jax.runs.manifest import write_manifest
from vit_jax.runs.ranking import NEVER_BEST, inspect_state, rank


def test_accuracy_comes_before_loss():
    worst_to_best = [(0.5, 9.0), (0.5, 1.0), (0.6, 5.0)]
    ranks = [rank(*scores) for scores in worst_to_best]
    assert ranks == sorted(ranks) and min(ranks) > NEVER_BEST


@pytest.mark.parametrize(
    "scores",
    [(None, 1.0), (0.5, None), (math.nan, 1.0), (0.5, math.nan), (1.0, math.inf)],
)
def test_without_two_finite_numbers_nothing_is_best(scores):
    assert rank(*scores) == NEVER_BEST


def test_a_state_is_verified_and_ranked(tmp_path):
    def inspect(metadata):
        found = types.SimpleNamespace(custom_metadata=metadata)
        handler = types.SimpleNamespace(metadata=lambda folder: found)
        return inspect_state(tmp_path, handler)

    scores = {"accuracy": 0.5, "loss": 1.0}
    (tmp_path / "array").write_bytes(b"abc")
    write_manifest(tmp_path)
    assert inspect(scores) == ((0.5, -1.0), None)
    found, damage = inspect(None)
    assert found == NEVER_BEST and "not of a training run" in damage
    (tmp_path / "array").write_bytes(b"abd")
    found, damage = inspect(scores)
    assert found == NEVER_BEST and "differs from its SHA-256" in damage
