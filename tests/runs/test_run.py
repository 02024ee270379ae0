"""What a loaded run answers."""

import functools

import jax
import numpy as np
import pytest

from tests.interpret.untrained import IMAGES, make_run
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run


@pytest.mark.slow
def test_calibrated_probabilities_are_those_at_the_stored_temperature(
    copied_run, tiny_run
):
    folder = RunFolder(copied_run)
    results = folder.read("results")
    best = results["best_step"]
    calibration = {"calibration": {"after": {"temperature": 2.5}}}
    results["test"] |= calibration
    # Another checkpoint has a temperature of its own, or none.
    results["other_checkpoints"] = {"3": {"val": {}}, "6": {"val": {}}}
    folder.write("results", results)
    run = load_run(copied_run)
    assert run.temperature == 2.5
    other = load_run(copied_run, checkpoint=9 - best)
    assert other.temperature == 1
    images = np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1)
    logits = run.model.apply(run.variables, run.normalize(images), train=False)
    found = run.predict(images, calibrated=True)
    np.testing.assert_allclose(found, jax.nn.softmax(logits / 2.5), rtol=1e-4)
    np.testing.assert_allclose(
        run.predict(images), jax.nn.softmax(logits), rtol=1e-4, atol=1e-6
    )


def test_features_are_what_the_head_sees():
    run = make_run()
    found = run.features(IMAGES)
    head = run.variables["params"]["head"]
    apply = jax.jit(functools.partial(run.model.apply, train=False))
    logits = apply(run.variables, run.normalize(IMAGES))
    np.testing.assert_allclose(
        found @ head["kernel"] + head["bias"][None], logits, rtol=1e-4, atol=1e-4
    )


def test_normalize_takes_bytes_alone(tiny_run):
    run = load_run(tiny_run[0])
    images = np.full((1, 8, 8, 1), 255, np.uint8)
    (mean,), (std,) = run.config.data.mean, run.config.data.std
    np.testing.assert_allclose(run.normalize(images), (1 - mean) / std, rtol=1e-5)
    with pytest.raises(UserError, match=r"uint8 .* float32; run.as_images"):
        run.normalize(images.astype(np.float32))
