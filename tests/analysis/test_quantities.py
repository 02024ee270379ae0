"""The numbers of a report for people."""

import numpy as np

from tests.analysis.made import all_scores, make_scored
from vit_jax.analysis.quantities import describe, to_text
from vit_jax.data import Dataset
from vit_jax.training import scoring


def test_quantities_are_named_explained_and_in_percent():
    scored = make_scored(wrong=[0], num_examples=100)
    scores = all_scores(scored) | {"flops": 52029312, "num_params": 1234567}
    scores["stages"] = [
        {"first_step": 0, "last_step": 3, "num_trainable_params": 170},
        {"first_step": 3, "last_step": 6, "num_trainable_params": 3850},
    ]
    found = {name: (value, meaning) for name, value, meaning in describe(scores)}
    assert found["Accuracy"][0] == "99.00% (94.55% to 99.82%)"
    assert found["Worst class"][0] == "a (97.06%)"
    assert found["Parameters"][0] == "1,234,567" and found["GFLOPs"][0] == "0.052"
    assert found["Temperature"][0] == "none" and "only 1 of" in found["Temperature"][1]
    assert found["Trained in stage 1"] == (
        "170",
        "parameters trained in steps 0 to 3",
    )
    assert found["Trained in stage 2"][0] == "3,850"
    assert all(meaning for _, meaning in found.values())


def test_the_text_has_every_quantity_and_every_class():
    scores = all_scores(make_scored(wrong=[0], num_examples=100))
    split, *lines = to_text(scores, "val").splitlines()
    assert split == "val split"
    for name, value, meaning in describe(scores):
        assert f"{name}: {value}; {meaning}" in lines
    classes = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    assert classes[0] == "class" and classes[2:] == list(scores["per_class"])


def test_the_text_has_the_lowest_and_the_highest_of_many_classes():
    # Class i has i right answers of 25, and the rest are taken for the last class.
    labels = np.repeat(np.arange(26, dtype=np.int32), 25)
    right = np.tile(np.arange(25), 26) < labels
    logits = np.eye(26, dtype=np.float32)[np.where(right, labels, 25)]
    names = tuple(f"c{i}" for i in range(26))
    dataset = Dataset(np.zeros((len(labels), 1, 1, 1), np.uint8), labels, names)
    text = to_text(scoring.describe_scores(logits, dataset), "test")
    *_, note, _, _ = text[: text.index("| c0 ")].splitlines()
    assert note.startswith("20 of 26 classes: the lowest and the highest by accuracy")
    assert "results.json" in note
    rows = text[text.index("| c0 ") :].splitlines()
    shown = [row.split("|")[1].strip() for row in rows]
    assert shown == [*names[:10], *names[16:]]


def test_people_are_explained_with_their_units():
    people = dict.fromkeys(
        ("cross_entropy", "entropy_of_people", "confusion_correlation"), 0.25
    )
    people |= {"accuracy_of_people": 0.95, "accuracy_of_majority": 0.99}
    people["confusion_correlation"] = None
    scores = all_scores(make_scored(wrong=[0], num_examples=100)) | {"people": people}
    found = {name: value for name, value, _ in describe(scores)}
    assert found["Entropy of people"] == "0.2500 nats"
    assert found["Correlation of confusions"] == "–"
    assert found["Accuracy of people"] == "95.00%"


def test_the_split_that_gave_the_temperature_is_named():
    scores = all_scores(make_scored(wrong=range(20), num_examples=200, scale=9.0))
    found = scores["calibration"]
    assert found["declined"] is None
    for split, words in (("test", "fitted on the test"), ("val", "the validation")):
        found |= {"fitted_on_itself": False, "fitted_on": split}
        (meaning,) = (m for name, _, m in describe(scores) if name == "Temperature")
        assert words in meaning
