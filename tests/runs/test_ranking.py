"""The order of evaluations."""

import math
import os

import pytest

from vit_jax.errors import UserError
from vit_jax.runs.load import load_run
from vit_jax.runs.manifest import write_manifest
from vit_jax.runs.ranking import NEVER_BEST, rank


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


def replace_metadata(run, step, text):
    """As a stranger could: the manifest fits."""
    state = run / "checkpoints" / str(step) / "state"
    (state / "_METADATA").write_text(text)
    (state / "manifest.json").unlink()
    write_manifest(state)


@pytest.mark.parametrize(
    "text", ["[]", "5", "null", "{}", "[" * 99_999, '{"tree_metadata": 5}']
)
@pytest.mark.filterwarnings("ignore:Checkpoint 6 is damaged")
def test_metadata_that_is_none_falls_back(text, copied_run):
    replace_metadata(copied_run, 6, text)
    assert load_run(copied_run, "latest").step == 3


def make_loop(path):
    path.symlink_to(path.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make, name",
    [
        (os.mkdir, "_METADATA"),
        (os.mkfifo, "_METADATA"),
        (make_loop, "_METADATA"),
        (os.mkfifo, "manifest.ocdbt"),
        (make_loop, "ocdbt.process_0/new"),
        (os.mkfifo, "commit_success.txt"),
    ],
)
@pytest.mark.filterwarnings("ignore:Checkpoint 6 is damaged")
def test_what_is_no_file_in_a_state_falls_back(make, name, copied_run):
    """With the old manifest, and with one that fits, as a stranger could make it."""
    state = copied_run / "checkpoints" / "6" / "state"
    (state / name).unlink(missing_ok=True)
    make(state / name)
    assert load_run(copied_run, "latest").step == 3
    (state / "manifest.json").unlink()
    write_manifest(state)
    assert load_run(copied_run, "latest").step == 3


@pytest.mark.filterwarnings("ignore:Checkpoint 9 is damaged.*was renamed")
def test_a_renamed_checkpoint_falls_back(copied_run):
    (copied_run / "checkpoints" / "6").rename(copied_run / "checkpoints" / "9")
    (copied_run / "checkpoints" / "other").mkdir()
    assert load_run(copied_run, "latest").step == 3


def test_a_manifest_that_is_a_pipe_does_not_block(copied_run):
    for manifest in (copied_run / "checkpoints").glob("*/state/manifest.json"):
        manifest.unlink()
        os.mkfifo(manifest)
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.raises(UserError, match=r"Every checkpoint .* is damaged"),
    ):
        load_run(copied_run)


CONTENTS = ["[]", "5", "null", "", "[" * 99_999]
OBJECTS = {
    "config": ['{"data": 5}', '{"model": []}', '{"optim": null}', '{"seed": {}}'],
    "dataset": [
        "{}", '{"class_names": 5, "image_shape": [8, 8, 1]}',
        '{"class_names": ["a", "a"], "image_shape": [8, 8, 1]}',
        '{"class_names": ["a"], "image_shape": [8, 8]}',
        '{"class_names": ["a"], "image_shape": [8, true, 1]}',
        '{"class_names": [["a"]], "image_shape": [8, 8, 1]}',
    ],
    "results": ['{"best_step": 6, "test": 5}', '{"other_checkpoints": {"6": []}}'],
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_a_small_file_with_other_content_is_one_sentence(name, copied_run):
    for text in (*CONTENTS, *OBJECTS[name]):
        (copied_run / f"{name}.json").write_text(text)
        with pytest.raises(UserError, match=rf"{name}\.json|config\."):
            load_run(copied_run, "latest")
