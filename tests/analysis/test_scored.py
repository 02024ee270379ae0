"""A split with the logits of an untrained model."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
import scipy.special

from tests.interpret.untrained import CLASSES, IMAGES, make_run
from vit_jax import models
from vit_jax.analysis.scored import Scorer
from vit_jax.data import Dataset
from vit_jax.errors import UserError

DATASET = Dataset(IMAGES, CLASSES.astype(np.int32), ("a", "b", "c", "d"))


@pytest.mark.parametrize("batch_size", [2, 1000])
def test_logits_are_those_that_the_run_predicts_with(batch_size):
    run = make_run()
    scored = Scorer(run, batch_size)(DATASET)
    assert scored.dataset is DATASET
    found = scipy.special.softmax(scored.logits, axis=1)
    np.testing.assert_allclose(found, run.predict(IMAGES), rtol=1e-4)


def test_a_batch_that_does_not_fit_is_refused():
    run = make_run()
    model = run.model.clone(num_registers=2**26)
    init = functools.partial(models.init_variables, model, image_shape=(8, 8, 3))
    shapes = jax.eval_shape(init, jax.random.key(0))
    huge = dataclasses.replace(run, model=model, variables=shapes)
    with pytest.raises(UserError, match=r"largest output .*config.eval_batch_size"):
        Scorer(huge, 1000)(DATASET)
