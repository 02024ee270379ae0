"""Orbax as a run uses it: what is kept, and what is read."""

import logging
import types

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from vit_jax.runs import orbax_manager
from vit_jax.runs.manifest import verify


@pytest.fixture
def saved(tmp_path, caplog):
    """A folder to which steps 1, 2 and 3 were saved, of which 1 and 3 are kept."""
    handler = orbax_manager.HashedStateHandler()
    policy = types.SimpleNamespace(
        should_preserve=lambda infos, *, context: [i.step in {1, 3} for i in infos]
    )
    with (
        caplog.at_level(logging.DEBUG),
        orbax_manager.make_manager(
            tmp_path, handler, policy=policy, read_only=False
        ) as manager,
    ):
        for step in (1, 2, 3):
            state = {"a/b": np.full(4, step, np.float32), "c": np.int32(step)}
            args = ocp.args.Composite(state=ocp.args.StandardSave(state))
            manager.save(step, args=args)
        manager.wait_until_finished()
    return tmp_path


def test_only_the_steps_to_keep_are_kept_each_with_a_manifest(saved, caplog):
    assert {path.name for path in saved.iterdir() if path.name.isdigit()} == {"1", "3"}
    for step in (1, 3):
        verify(saved / str(step) / "state")
    assert not caplog.records  # Orbax's own log is no concern of users.


def test_only_the_arrays_that_are_asked_for_are_restored(saved):
    targets = {"a/b": jax.ShapeDtypeStruct((4,), np.float32)}
    found = orbax_manager.restore_arrays(saved / "3" / "state", targets)
    assert found.keys() == targets.keys()
    np.testing.assert_array_equal(found["a/b"], np.full(4, 3, np.float32))
    assert found["a/b"].devices() == {jax.devices()[0]}
