"""The scores of a report, by hand and of a run."""

import numpy as np
import pytest

from tests.analysis.made import Page, make_scored
from vit_jax import data
from vit_jax.analysis import evaluate, report_figures, run_data
from vit_jax.analysis.scored import Scored
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run


@pytest.mark.slow
def test_results_hold_the_report(reported, trained):
    scores = RunFolder(reported).read("results")["test"]
    before = trained[1]["test"]
    assert {key: scores[key] for key in before} == before
    gap = scores["train_accuracy"] - scores["accuracy"]
    assert scores["generalization_gap"] == pytest.approx(gap)
    logged = evaluate.logged_train_accuracy(RunFolder(reported).read_metrics())
    assert scores["train_accuracy_logged"] == pytest.approx(logged)
    gap = logged - scores["accuracy"]
    assert scores["generalization_gap_logged"] == pytest.approx(gap)
    assert scores["num_params"] == trained[1]["num_params"]
    calibration = scores["calibration"]
    assert calibration["before"]["nll"] == pytest.approx(scores["loss"])
    assert not calibration["fitted_on_itself"]
    # The hold-out has too few successes.
    assert calibration["after"]["temperature"] == 1 and calibration["declined"]
    # All counts are equal, which is the largest entropy that there is.
    assert scores["people"]["entropy_of_people"] == pytest.approx(np.log(10))
    assert len(scores["people"]["largest_differences"]) == 16
    for size in (1, 128):
        one = scores["latency"][f"batch_{size}"]
        assert 0 < one["lower_quartile"] <= one["upper_quartile"]
        assert one["num_repeats"] >= 10
    assert scores["latency"]["other_cores"] >= 0
    assert scores["latency"]["dtype"] == "float32"


@pytest.mark.slow
def test_both_test_sets_are_scored(reported):
    results = RunFolder(reported).read("results")
    subset = results["subset_test"]
    assert subset["num_examples"] == 50
    assert [row["support"] for row in subset["per_class"].values()] == [5] * 10
    run = load_run(reported)
    _, splits = run_data.load_splits(run)
    right = run.predict(splits["subset_test"].images).argmax(1)
    assert subset["accuracy"] == np.mean(right == splits["subset_test"].labels)
    assert "subset_test.per_class.3.recall" in (reported / "summary.csv").read_text()
    shown = Page((reported / "report.html").read_text()).text
    assert f"{subset['loss']:.4f} nats" in shown and "second test split" in shown


def test_mirrored_scores_by_hand():
    """The model reads the brightness of the left column only."""
    images = np.zeros((2, 1, 2, 1), np.uint8)
    images[0, 0] = [[200], [50]]
    images[1, 0] = [[20], [10]]
    dataset = data.Dataset(images, np.array([0, 1], np.int32), ("bright", "dark"))

    def score(dataset):
        fraction = dataset.images[:, 0, 0].astype(np.float32) / 255
        return Scored(dataset, np.log(np.concatenate([fraction, 1 - fraction], 1)))

    first, second = score(dataset), score(evaluate.mirror(dataset))
    assert first.accuracy == 1 and second.accuracy == 0.5
    scores = evaluate.describe_mean(first, second)
    fractions = np.array([125 / 255, 1 - 15 / 255])
    assert scores["accuracy"] == 0.5
    assert scores["loss"] == pytest.approx(-np.log(fractions).mean(), rel=1e-6)


def test_logged_train_accuracy_is_the_mean_over_the_last_epoch():
    def log(*points):
        return [
            {"split": "train", "step": 10 * e, "epoch": e, "seconds": e, "accuracy": a}
            for e, a in points
        ]

    records = log((1.0, 0.0), (1.5, 0.4), (2.0, 0.8))
    records.insert(2, {"split": "val", "epoch": 2.0, "accuracy": 0.1})
    assert evaluate.logged_train_accuracy(records) == pytest.approx(0.6)
    assert evaluate.logged_train_accuracy(log((0.25, 0.3))) == pytest.approx(0.3)
    assert np.isnan(evaluate.logged_train_accuracy([]))
    scores = evaluate.compare_splits(*[make_scored([0, 1, 2])] * 3, records)
    assert scores["generalization_gap_logged"] == pytest.approx(0.6 - 0.75)


def test_gap_and_temperature_come_from_the_right_splits():
    test, val = make_scored([0, 1, 2]), make_scored(range(0, 600, 6), 600)
    scores = evaluate.compare_splits(test, val, make_scored())
    assert scores["generalization_gap"] == pytest.approx(0.25)
    assert scores["train_accuracy"] == 1
    # At the best temperature the mean confidence on val is its accuracy, 10 / 12.
    temperature = scores["calibration"]["after"]["temperature"]
    confidence = 1 / (1 + 2 * np.exp(-5 / temperature))
    assert confidence == pytest.approx(10 / 12, abs=0.01)
    assert not scores["calibration"]["fitted_on_itself"]
    assert scores["calibration"]["declined"] is None
    few = evaluate.compare_splits(test, make_scored([0]), make_scored())
    assert few["calibration"]["after"] == few["calibration"]["before"]
    assert "1 of the 12 images" in few["calibration"]["declined"]
    itself = evaluate.compare_splits(test, test, test)["calibration"]
    assert itself["fitted_on_itself"]


def test_people_and_model_are_named():
    scored = make_scored(wrong=[3])
    counts = np.eye(3, dtype=np.int64)[scored.dataset.labels] * 50
    differences = evaluate.compare_with_people(scored, counts)["largest_differences"]
    assert len(differences) == 12
    distance = differences[0].pop("distance")
    first = {"index": 3, "label": "a", "model": "b & <c>", "people": "a"}
    assert differences[0] == first
    # All people say a. The distance is 1 minus the model's probability of a.
    assert distance == pytest.approx(1 - 1 / (np.exp(5) + 2))
    titles = [
        axes.get_title() for axes in report_figures.draw_people(scored, counts).axes
    ]
    # The only mistake comes first: its label is a, and the second class is predicted.
    assert titles[0] == "label: a\nmodel: b & <c> (99%)\npeople: a (100%)"
    assert len(titles) == 12


@pytest.mark.parametrize(
    "text, words",
    [
        ("cta,dog", r'class cta.*\(did you mean "cat"\?\)'),
        ("cat,car", "class car, which the dataset does not have"),
        ("cat", "two different classes.*--confusion=cat,dog"),
        ("cat,cat", "two different classes"),
        ("cat,dog,ship", "two different classes"),
    ],
)
def test_confusions_that_are_none(text, words):
    with pytest.raises(UserError, match=words):
        evaluate.parse_confusion(text, ("cat", "dog", "ship"))
    with pytest.raises(UserError, match=r"does not name two|does not have"):
        evaluate.parse_confusion(text, ("cat",))


def test_the_classes_of_a_confusion_may_have_commas():
    names = ("goldfish", "tench, Tinca tinca")
    assert evaluate.parse_confusion("tench, Tinca tinca,goldfish", names) == (1, 0)
    assert evaluate.parse_confusion("goldfish, tench, Tinca tinca", names) == (0, 1)
