"""The data of a run, loaded again."""

import numpy as np
import pytest

from vit_jax.analysis import run_data
from vit_jax.data import named_splits
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run


def test_images_of_all_classes_are_explained_and_always_the_same(tiny_run):
    _, splits = run_data.load_splits(load_run(tiny_run[0]))
    # A folder of images is in the order of its classes.
    test = splits["test"]
    splits["test"] = test.select(np.argsort(test.labels, kind="stable"))
    captions, images = run_data.read_split(splits)
    assert len(captions) == len(images) == run_data.MAX_IMAGES == 64
    assert len({caption.split(": ")[1] for caption in captions}) == 10
    again = run_data.read_split(splits)
    assert captions == again[0]
    np.testing.assert_array_equal(images, again[1])


def test_images_are_chosen_by_their_indices(tiny_run):
    _, splits = run_data.load_splits(load_run(tiny_run[0]))
    captions, images = run_data.read_split(splits, "val", "99, 3,99")
    val = splits["val"]
    np.testing.assert_array_equal(images, val.images[[99, 3]])
    assert captions == [f"{i}: true {val.class_names[val.labels[i]]}" for i in (99, 3)]


@pytest.mark.parametrize("text", ["-1", "359", "x", "9" * 5000])
def test_indices_of_no_image_are_refused(tiny_run, text):
    _, splits = run_data.load_splits(load_run(tiny_run[0]))
    with pytest.raises(UserError, match=r"--indices has .* has the images 0 to 358;"):
        run_data.read_split(splits, "test", text)


def test_other_data_than_those_of_training_are_refused(copied_run):
    run = load_run(copied_run)
    moved, splits = run_data.load_splits(run, {"eval_batch_size": "7"})
    assert moved.config.eval_batch_size == 7 and len(splits["test"]) == 359
    folder = RunFolder(copied_run)
    described = folder.read("dataset")
    described["num_examples"]["test"] -= 1
    folder.write("dataset", described)
    with pytest.raises(UserError, match=r"358.* but the data found are .*359"):
        run_data.load_splits(run)


def test_the_test_split_is_not_called_val(tiny_run):
    _, splits = run_data.load_splits(load_run(tiny_run[0]))
    assert named_splits(splits).keys() == splits.keys()
    splits["val"] = splits["test"]
    with pytest.raises(UserError, match="no split 'val'"):
        run_data.read_split(splits, "val")
