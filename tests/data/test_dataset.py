"""What a Dataset refuses, and how splits are drawn from it."""

import numpy as np
import pytest

from tests.parallel.running import run_code
from vit_jax.config import make_config
from vit_jax.data import dataset
from vit_jax.data.dataset import Dataset, with_test
from vit_jax.errors import UserError


def hold_out(splits, **settings):
    return dataset.hold_out(splits, make_config({"data": settings}).data)


def make_dataset(counts, seed=0):
    """Images that differ in every byte, with classes in random order."""
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    labels = np.random.RandomState(seed).permutation(labels)
    ids = np.arange(len(labels))
    images = np.stack([ids // 256, ids % 256, ids * 0], -1).astype(np.uint8)
    names = tuple(f"class_{label}" for label in range(len(counts)))
    return Dataset(images[:, None, None], labels, names)


def ids(dataset):
    high, low, _ = np.moveaxis(dataset.images[:, 0, 0].astype(int), -1, 0)
    return high * 256 + low


IMAGES = np.zeros((4, 2, 2, 3), np.uint8)
LABELS = np.array([0, 1, 1, 0], np.int32)


@pytest.mark.parametrize(
    ("images", "labels", "names", "message"),
    [
        (IMAGES.astype(np.float32), LABELS, ("a", "b"), r"must be uint8.*are float32"),
        (IMAGES[..., :2], LABELS, ("a", "b"), r"1 or 3\], but.*\[4, 2, 2, 2\]"),
        (IMAGES[..., 0], LABELS, ("a", "b"), r"must be.*of shape \[4, 2, 2\]"),
        (IMAGES[:0], LABELS[:0], ("a", "b"), r"There is no image.*\[0, 2, 2, 3\]"),
        (IMAGES, LABELS.astype(np.int64), ("a", "b"), r"must be int32.*are int64"),
        (IMAGES, LABELS[:3], ("a", "b"), r"of shape \[4\].*are int32 of shape \[3\]"),
        (
            IMAGES,
            LABELS * 2,
            ("a", "b"),
            r"example 1 is 2, but must be 0 to 1.*\(2 such",
        ),
        (IMAGES, LABELS - 1, ("a", "b"), r"example 0 is -1, but must be 0 to 1"),
        (IMAGES, LABELS, ("a", "a"), r'Two classes are named "a"'),
    ],
)
def test_dataset_refuses(images, labels, names, message):
    with pytest.raises(UserError, match=message):
        Dataset(images, labels, names)


# In a process of its own, where no test checks the types of arguments.
OTHER_TYPES = """
import numpy as np
from vit_jax.data import Dataset
from vit_jax.errors import UserError
images, labels = np.zeros((2, 2, 2, 3), np.uint8), np.array([0, 1], np.int32)
print(Dataset(images, labels, np.array(["a", "b"])).class_names)
for arguments in (
    (images, labels, (0, 1)), (list(images), labels, "ab"), (images, [0, 1], "ab"),
):
    try:
        Dataset(*arguments)
    except UserError as error:
        print(error)
"""


def test_types_of_another_library_are_converted_or_refused():
    names, *lines = run_code(OTHER_TYPES).stdout.splitlines()
    assert names.startswith("(") and "'a'" in names and "'b'" in names
    assert len(lines) == 3
    assert lines[0].startswith("The names of classes must be texts, but are (0, 1); ")
    assert "NumPy arrays, but are of the types list and ndarray; convert" in lines[1]
    assert "NumPy arrays, but are of the types ndarray and list; convert" in lines[2]


@pytest.mark.parametrize("settings", [{"validation": 100}, {"val_per_class": 20}])
def test_hold_out_divides_the_training_split(settings):
    splits = {"train": make_dataset([200] * 5), "test": make_dataset([7] * 5)}
    settings = {"validation": 1, "subset_test_per_class": 30} | settings
    parts = hold_out(splits, **settings, split_seed=1)
    assert parts["test"] is splits["test"]
    for name, per_class in {"train": 150, "val": 20, "subset_test": 30}.items():
        assert parts[name].count_classes().tolist() == [per_class] * 5, name
        assert (np.diff(ids(parts[name])) > 0).all(), "examples keep their order"
    drawn = np.concatenate([ids(parts[n]) for n in ("train", "val", "subset_test")])
    np.testing.assert_array_equal(np.sort(drawn), np.arange(1000))
    # Each image kept its own label.
    np.testing.assert_array_equal(
        parts["val"].labels, splits["train"].labels[ids(parts["val"])]
    )


def test_hold_out_is_the_same_on_every_machine():
    splits = {"train": make_dataset([10, 10]), "test": make_dataset([1, 1])}
    # If this changes, earlier runs were validated on other images.
    assert ids(hold_out(splits, validation=4)["val"]).tolist() == [0, 2, 13, 16]


def test_hold_out_depends_on_its_seed_alone():
    splits = {"train": make_dataset([100] * 3), "test": make_dataset([5] * 3)}
    first, again, other = (
        hold_out(splits, validation=30, subset_test_per_class=10, split_seed=seed)
        for seed in (1, 1, 2)
    )
    fewer = hold_out(
        splits,
        validation=30,
        subset_test_per_class=10,
        split_seed=1,
        train_per_class=5,
    )
    for name in ("val", "subset_test"):
        np.testing.assert_array_equal(ids(first[name]), ids(again[name]))
        # The number of training images does not change which images are held out.
        np.testing.assert_array_equal(ids(first[name]), ids(fewer[name]))
        assert set(ids(first[name])) != set(ids(other[name]))
    assert fewer["train"].count_classes().tolist() == [5] * 3
    assert set(ids(fewer["train"])) < set(ids(first["train"]))


def test_hold_out_follows_the_sizes_of_the_classes():
    splits = {"train": make_dataset([50, 30, 25]), "test": make_dataset([1, 1, 1])}
    val = hold_out(splits, validation=10)["val"]
    # 4.76, 2.86, 2.38: the two largest remainders are rounded up.
    assert val.count_classes().tolist() == [5, 3, 2]


def test_validation_on_the_test_split():
    splits = {"train": make_dataset([20, 20]), "test": make_dataset([4, 4])}
    parts = hold_out(splits, validation=0, select_on="test")
    assert parts["val"] is parts["test"] is splits["test"]
    assert parts["train"] is splits["train"]


def test_a_validation_split_of_the_data_is_used():
    splits = {n: make_dataset([20, 20]) for n in ("train", "val", "test")}
    parts = hold_out(splits, validation=5000)
    assert all(parts[name] is splits[name] for name in splits)
    assert hold_out(splits, validation=0, select_on="test")["val"] is splits["test"]


@pytest.mark.parametrize(
    "settings",
    [
        {"validation": 300},
        {"validation": 5000},
        {"validation": 1, "val_per_class": 60},
        {"validation": 30, "subset_test_per_class": 45},
        {"validation": 30, "train_per_class": 46},
    ],
)
def test_hold_out_of_more_than_there_is(settings):
    splits = {"train": make_dataset([250, 50]), "test": make_dataset([1, 1])}
    with pytest.raises(UserError, match=r'"class_[01]" has .* images, too few for'):
        hold_out(splits, **settings)


def test_hold_out_of_a_class_without_images():
    splits = {"train": make_dataset([20, 0]), "test": make_dataset([4, 4])}
    with pytest.raises(UserError, match=r'"class_1" has no training images'):
        hold_out(splits, validation=0, select_on="test")


def test_hold_out_refuses_a_contradiction():
    splits = {n: make_dataset([20, 20]) for n in ("train", "val", "test")}
    with pytest.raises(UserError, match=r"select_on is test, but .*val_per_class"):
        hold_out(splits, validation=0, select_on="test", val_per_class=5)
    with pytest.raises(UserError, match=r"val_per_class is 5.*own validation split"):
        hold_out(splits, validation=10, val_per_class=5)


def test_nothing_held_out():
    splits = {"train": make_dataset([20, 20]), "test": make_dataset([4, 4])}
    parts = hold_out(splits, validation=0, select_on="nothing")
    assert list(parts) == ["train", "test"] and parts["train"] is splits["train"]
    held = hold_out(splits, validation=4, select_on="nothing")
    assert len(held["val"]) == 4, "nothing selects on it, but it is evaluated"
    with pytest.raises(UserError, match=r"select_on is val, but .*validation is 0"):
        hold_out(splits, validation=0)
    with pytest.raises(UserError, match=r"select_on is test, but .*validation=4 holds"):
        hold_out(splits, validation=4, select_on="test")


def test_data_without_a_test_split():
    train, val = make_dataset([20, 3, 2]), make_dataset([2, 2, 2])
    assert with_test({"train": train, "val": val})["test"] is val
    parts = with_test({"train": train})
    assert parts["test"].count_classes().tolist() == [4, 1, 1]
    both = np.concatenate([ids(parts["train"]), ids(parts["test"])])
    np.testing.assert_array_equal(np.sort(both), np.arange(25))


def test_one_image_cannot_be_split():
    with pytest.raises(UserError, match='class "class_1" is 1, but at least 2'):
        with_test({"train": make_dataset([20, 1])})


def test_a_fraction_is_held_out():
    data = make_dataset([50, 100])
    splits = {"train": data, "test": data}
    tenth = hold_out(splits, validation=0, validation_fraction=0.1)
    assert tenth["val"].count_classes().tolist() == [5, 10]
    few = hold_out(splits, validation=0, validation_fraction=0.001)
    assert len(few["val"]) == 1
    with pytest.raises(
        UserError, match=r"validation is 15 and .*fraction is 0\.1, but"
    ):
        hold_out(splits, validation=15, validation_fraction=0.1)
    with pytest.raises(UserError, match=r"is test, but .*validation_fraction=0\.1"):
        hold_out(splits, validation=0, validation_fraction=0.1, select_on="test")


@pytest.mark.parametrize(
    "counts, settings, held_out",
    [
        # In proportion the second class would give none, and the third its only image.
        ((100, 3, 1), {"validation": 0, "validation_fraction": 0.1}, [9, 1, 0]),
        ((1, 1, 8), {"validation": 5}, [0, 0, 5]),
        ((6, 2), {"validation": 6}, [5, 1]),
        # One image cannot serve two classes.
        ((6, 6), {"validation": 1}, [1, 0]),
    ],
)
def test_small_classes_are_validated_on_and_keep_an_image(counts, settings, held_out):
    data = make_dataset(counts)
    splits = hold_out({"train": data, "test": data}, **settings)
    assert splits["val"].count_classes().tolist() == held_out
    assert splits["train"].count_classes().min() >= 1
