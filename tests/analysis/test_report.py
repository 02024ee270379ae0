"""The report of a run: what it says, draws and writes, and what it refuses."""

import csv
import html.parser
import json
import re

import numpy as np
import pytest
from PIL import Image

from vit_jax import data
from vit_jax.analysis import evaluate, page, report, report_figures, run_data
from vit_jax.analysis.quantities import describe
from vit_jax.analysis.scored import Scored
from vit_jax.analysis.scores_text import to_text
from vit_jax.errors import UserError
from vit_jax.evaluate import main
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training import curves, scoring
from vit_jax.training.train import train_and_evaluate

FIGURES = {
    "training_curves",
    "confusion_matrix",
    "per_class_accuracy",
    "confidence_by_class",
    "precision_recall_f1",
    "roc",
    "reliability",
    "top_confusions",
    "sample_predictions",
    "misclassified",
    "confident_mistakes",
}
BOTH_TEST_SETS = {"accuracy_on_both_test_sets", "subset_test_confusion_matrix"}


def make_scored(wrong=(), num_examples=12, scale=5.0):
    """Three classes in turn; the examples in `wrong` are taken for the next class."""
    labels = np.arange(num_examples, dtype=np.int32) % 3
    predicted = (
        np.where(np.isin(np.arange(num_examples), wrong), labels + 1, labels) % 3
    )
    images = np.zeros((num_examples, 4, 4, 3), np.uint8)
    logits = scale * np.eye(3, dtype=np.float32)[predicted]
    return Scored(data.Dataset(images, labels, ("a", "b & <c>", "d")), logits)


def all_scores(scored, val=None, train=None):
    scores = scoring.describe_scores(scored.logits, scored.dataset)
    return scores | evaluate.compare_splits(scored, val or scored, train or scored)


@pytest.fixture(scope="module")
def trained(tiny_config, tmp_path_factory):
    """(folder, results) of a finished run with a second test split, to be changed."""
    workdir = tmp_path_factory.mktemp("reported") / "tiny"
    config = tiny_config(data__subset_test_per_class=5)
    return workdir, train_and_evaluate(config, workdir)


@pytest.fixture(scope="module")
def reported(trained):
    """The run's folder after the command was called with people's counts."""
    workdir = trained[0]
    counts = np.full((359, 10), 1, np.int64)
    file = workdir.parent / "people.npy"
    np.save(file, counts)
    main([f"--workdir={workdir}", "--report", f"--human_labels={file}"])
    return workdir


def test_a_hold_out_without_successes_fits_no_temperature(reported):
    calibration = RunFolder(reported).read("results")["test"]["calibration"]
    assert calibration["after"]["temperature"] == 1
    assert calibration["declined"]


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
    # Counts that are all equal: no one's entropy can be larger.
    assert scores["people"]["entropy_of_people"] == pytest.approx(np.log(10))
    assert len(scores["people"]["largest_differences"]) == 16
    for size in (1, 128):
        one = scores["latency"][f"batch_{size}"]
        assert 0 < one["lower_quartile"] <= one["upper_quartile"]
        assert one["num_repeats"] >= 10
    assert scores["latency"]["other_cores"] >= 0
    assert scores["latency"]["dtype"] == "float32"


def test_every_figure_is_drawn(reported):
    assert drawn_by(reported) == FIGURES | BOTH_TEST_SETS | {
        "disagreements_with_people"
    }


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


def test_subset_figures_show_the_subset():
    test, subset = make_scored(), make_scored([0], num_examples=6)
    figures = report_figures.draw_subset_test(test, subset)
    axes = figures["accuracy_on_both_test_sets"].axes[0]
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    assert heights == [[100, 100, 100], [50, 100, 100]]
    matrix = figures["subset_test_confusion_matrix"].axes[0]
    assert sorted(text.get_text() for text in matrix.texts) == [
        "1\n50.0%",
        "1\n50.0%",
        "2\n100.0%",
        "2\n100.0%",
    ]


def test_csv_files(reported):
    def rows(name):
        return list(csv.reader((reported / f"{name}.csv").read_text().splitlines()))

    scores = RunFolder(reported).read("results")["test"]
    summary = dict(rows("summary"))
    assert (
        float(summary["calibration.before.ece"])
        == (scores["calibration"]["before"]["ece"])
    )
    classes = rows("per_class")
    assert classes[0][0] == "class" and "auc" in classes[0] and len(classes) == 11
    matrix = np.array([row[1:] for row in rows("confusion")[1:]], int)
    assert matrix.tolist() == scores["confusion_matrix"]
    first = scores["top_confusions"][0]
    place = [list(scores["per_class"]).index(first[k]) for k in ("true", "predicted")]
    assert rows("top_confusions")[1] == [*map(str, first.values())]
    assert matrix[*place] == first["count"]
    pair = scores["top_confused_pairs"][0]
    assert rows("top_confused_pairs")[1] == [*map(str, pair.values())]
    for name, row in zip(scores["per_class"], classes[1:], strict=True):
        for key in ("confidence_right", "confidence_wrong"):
            expected = scores["per_class"][name][key]
            shown = row[classes[0].index(key)]
            assert shown == ("" if expected is None else str(expected))


def test_curves_as_csv(reported):
    history = list(csv.DictReader((reported / "history.csv").read_text().splitlines()))
    records = RunFolder(reported).read_metrics()
    assert len(history) == len(records) > 2
    for row, record in zip(history, records, strict=True):
        assert (row["split"], int(row["step"])) == (record["split"], record["step"])
        for key in ("epoch", "loss", "accuracy"):
            assert float(row[key]) == record[key]
        assert bool(row["images_per_second"]) == (row["split"] == "train")
    points = list(csv.DictReader((reported / "roc.csv").read_text().splitlines()))
    scores = RunFolder(reported).read("results")["test"]
    for name, row in scores["per_class"].items():
        x, y = (
            [float(point[f"{kind}_positive_rate"]) for point in points
             if point["class"] == name]
            for kind in ("false", "true")
        )  # fmt: skip
        assert np.trapezoid(y, x) == pytest.approx(row["auc"])
    text = (reported / "reliability.csv").read_text()
    bins = [row for row in csv.DictReader(text.splitlines()) if int(row["images"])]
    assert sum(int(row["images"]) for row in bins) == scores["num_examples"]
    gaps = [abs(float(r["mean_confidence"]) - float(r["accuracy"])) for r in bins]
    ece = np.average(gaps, weights=[int(row["images"]) for row in bins])
    assert scores["calibration"]["before"]["ece"] == pytest.approx(ece)


def drawn_by(reported):
    return {path.stem for path in (reported / "figures").glob("*.png")}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.sources, self.images, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.sources += [value for key, value in attrs if key in ("src", "href")]
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, text):
        self.text += f"{text}\n"


def test_the_page_needs_no_other_file(reported):
    shown = Page((reported / "report.html").read_text())
    assert len(shown.sources) == len(drawn_by(reported))
    assert all(s.startswith("data:image/png;base64,iVBOR") for s in shown.sources)
    for words in ("Generalisation gap", "Balanced accuracy", "359", "jax"):
        assert words in shown.text


def test_the_page_opens_with_its_result(reported):
    text = (reported / "report.html").read_text()
    (summary,) = re.findall('<p class="summary">(.*?)</p>', text)
    scores = RunFolder(reported).read("results")["test"]
    assert summary.startswith(
        f"tiny classifies {scores['accuracy']:.2%} of 359 images correctly (95% "
    )
    assert "was selected on images held out from training" in summary
    assert f"{scores['num_params']:,} parameters and was trained for" in summary
    order = [
        text.index(words)
        for words in (summary, "Training curves of", "Confusion matrix", "Numbers</h2>")
    ]
    assert order == sorted(order)
    # Settings are folded away, and no quantity has a dotted key.
    start = text.index("<details>")
    assert text.index("patch_size") > start
    assert not re.search(r"<td>[a-z_]+\.[a-z_.]+</td>", text)


def test_the_page_names_its_figures_and_shows_them_in_their_size(reported):
    shown = Page((reported / "report.html").read_text())
    widths = {image["alt"]: int(image["width"]) for image in shown.images}
    assert len(widths) == len(shown.images)
    # 150 dots per inch, and 96 of a page's pixels.
    with Image.open(reported / "figures" / "training_curves.png") as figure:
        assert widths["Training curves of tiny"] == round(figure.width / 150 * 96)
    assert "Confusion matrix (test)" in widths


def test_quantities_are_named_explained_and_in_percent():
    scored = make_scored(wrong=[0], num_examples=100)
    scores = all_scores(scored) | {"flops": 52029312, "num_params": 1234567}
    found = {name: (value, meaning) for name, value, meaning in describe(scores)}
    assert found["Accuracy"][0] == "99.00% (94.55% to 99.82%)"
    assert found["Worst class"][0] == "a (97.06%)"
    assert found["Parameters"][0] == "1,234,567" and found["GFLOPs"][0] == "0.052"
    assert found["Temperature"][0] == "none" and "only 1 of" in found["Temperature"][1]
    assert all(meaning for _, meaning in found.values())


def test_names_cannot_break_the_page():
    scores = all_scores(make_scored())
    text = page.render_html("<run> & co", "x < y", scores, {"a": {"b": "<i>"}}, {}, ())
    assert "<i>" not in text and "<run>" not in text and "<c>" not in text
    shown = Page(text).text
    assert "<run> & co" in shown and "b & <c>" in shown and '"<i>"' in shown


@pytest.mark.slow
def test_the_reports_numbers_survive_a_plain_evaluation(reported):
    before = RunFolder(reported).read("results")
    main([f"--workdir={reported}"])
    assert RunFolder(reported).read("results") == before
    (reported / "figures" / "misclassified.png").write_text("of an earlier report")
    stale = reported / "figures" / "disagreements_with_people.png"
    main([f"--workdir={reported}", "--report", "--mirrored"])
    assert not stale.exists()
    assert (reported / "figures" / "misclassified.png").stat().st_size > 1_000
    scores = RunFolder(reported).read("results")["test"]
    assert scores["people"] == before["test"]["people"]
    assert scores["accuracy"] == before["test"]["accuracy"]
    assert scores["mirrored"].keys() == {"accuracy", "loss"}


@pytest.mark.slow
def test_other_reports_stand_apart(reported):
    def contents():
        files = (*reported.glob("*.*"), *(reported / "figures").iterdir())
        return {file: file.read_bytes() for file in files if file.stem != "results"}

    before = contents()
    step = load_run(reported).step
    main([f"--workdir={reported}", "--split=val", "--report"])
    assert contents() == before
    other = reported / "reports" / f"val-{step}"
    assert (other / "roc.csv").exists() and (other / "history.csv").exists()
    assert "val split" in Page((other / "report.html").read_text()).text
    assert {path.stem for path in (other / "figures").iterdir()} == FIGURES


@pytest.mark.parametrize(
    "step, split, place",
    [(5, "test", "."), (3, "test", "reports/test-3"), (5, "val", "reports/val-5")],
)
def test_where_a_report_goes(tmp_path, step, split, place):
    folder = RunFolder(tmp_path)
    unfinished = report.report_folder(folder, step, split)
    assert unfinished == tmp_path / "reports" / f"{split}-{step}"
    folder.write("results", {"best_step": 5})
    assert report.report_folder(folder, step, split) == tmp_path / place


def test_mirrored_scores_by_hand():
    """A model that sees only the left column, and of two classes which is brighter."""
    images = np.zeros((2, 1, 2, 1), np.uint8)
    images[0, 0] = [[200], [50]]
    images[1, 0] = [[20], [10]]
    dataset = data.Dataset(images, np.array([0, 1], np.int32), ("bright", "dark"))

    def score(dataset):
        share = dataset.images[:, 0, 0].astype(np.float32) / 255
        return Scored(dataset, np.log(np.concatenate([share, 1 - share], 1)))

    first, second = score(dataset), score(evaluate.mirror(dataset))
    assert first.accuracy == 1 and second.accuracy == 0.5
    scores = evaluate.describe_mean(first, second)
    shares = np.array([125 / 255, 1 - 15 / 255])
    assert scores["accuracy"] == 0.5
    assert scores["loss"] == pytest.approx(-np.log(shares).mean(), rel=1e-6)


def test_auc_is_in_the_scores():
    scores = scoring.describe_scores(*vars_of(make_scored(wrong=[0])))
    # Class "a" loses one of 4 examples to "b", with a score below all of a's and equal
    # to the 8 of the others: (3 + 1/2) / 4.
    assert scores["per_class"]["a"]["auc"] == pytest.approx(0.875)
    assert scores["macro"]["auc"] == pytest.approx(
        np.mean([row["auc"] for row in scores["per_class"].values()])
    )


def test_confidence_is_in_the_scores_by_true_class():
    scored = make_scored(wrong=[0, 1, 4, 7, 10])
    scored.logits[3] *= 0.5
    rows = scoring.describe_scores(*vars_of(scored))["per_class"]
    sure, less_sure = (1 / (1 + 2 * np.exp(-logit)) for logit in (5, 2.5))
    # Three right ones of "a", of which one is less sure; "b" is never right.
    assert rows["a"]["confidence_right"] == pytest.approx((2 * sure + less_sure) / 3)
    assert rows["a"]["confidence_wrong"] == pytest.approx(sure)
    assert rows["b & <c>"]["confidence_right"] is None
    assert rows["b & <c>"]["confidence_wrong"] == pytest.approx(sure)
    assert rows["d"]["confidence_wrong"] is None
    figures = report_figures.draw_figures(scored, all_scores(scored), "test")
    axes = figures["confidence_by_class"].axes[0]
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    expected = [[rows[n][f"confidence_{k}"] for n in rows] for k in ("right", "wrong")]
    np.testing.assert_allclose(heights, 100 * np.array(expected, float))
    assert axes.get_ylabel() == "mean confidence (%)"


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


@pytest.mark.parametrize(
    "calibrated, words", [(False, "no temperature"), (True, "✓ better")]
)
def test_the_reliability_diagram_says_whether_calibration_helps(calibrated, words):
    scored = make_scored(range(30), num_examples=90)
    val = make_scored(range(40), num_examples=120) if calibrated else make_scored([0])
    calibration = all_scores(scored, val=val)["calibration"]
    figure = report_figures.draw_reliability(scored, calibration, "test")
    texts = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
    assert any(words in text for text in texts)
    assert len(figure.axes) == (6 if calibrated else 3)


def test_galleries_of_one_confusion():
    scored = make_scored(wrong=[0, 3, 9])
    scored.logits[3] *= 2
    ((name, figure),) = report_figures.draw_confusion(scored, 0, 1).items()
    assert name == "confusion_a_b____c_"  # a file's name
    assert figure.get_suptitle() == (
        "a predicted as b & <c>\n3 of 3 images, the most confident first"
    )
    titles = [axes.get_title() for axes in figure.axes]
    first, second = (
        f"✗ true a,\npredicted b & <c> ({percent}%)" for percent in (100, 99)
    )
    assert titles == [first, second, second]
    assert report_figures.draw_confusion(scored, 1, 0) == {}


@pytest.mark.slow
def test_the_command_draws_galleries(trained, capsys):
    workdir, results = trained
    step = results["best_step"]
    pair = results["val"]["top_confusions"][0]
    true, predicted = pair["true"], pair["predicted"]
    matrix = results["val"]["confusion_matrix"]
    never = next(
        (i, j) for i in range(10) for j in range(10) if i != j and not matrix[i][j]
    )
    command = [f"--workdir={workdir}", "--split=val", "--report"]
    folder = workdir / "reports" / f"val-{step}"
    gallery = folder / "figures" / f"confusion_{true}_{predicted}.png"
    galleries = [f"--confusion={true},{predicted}", "--confusion={},{}".format(*never)]
    main([*command, *galleries])
    assert "no image of {} is predicted as {}\n".format(*never) in (
        capsys.readouterr().out
    )
    assert gallery.exists()
    drawn = {path.stem for path in gallery.parent.iterdir()}
    assert drawn == FIGURES | {gallery.stem}
    shown = Page((folder / "report.html").read_text())
    title = f"{true} predicted as {predicted}\n{min(16, pair['count'])} of"
    assert any(title in image["alt"] for image in shown.images)
    main(command)
    assert not gallery.exists()


def vars_of(scored):
    return scored.logits, scored.dataset


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


@pytest.mark.parametrize(
    "wrong, missing",
    [
        ([], {"misclassified", "confident_mistakes", "top_confusions", "roc"}),
        (range(30), set()),
        # The confident mistakes are all of them.
        ([3], {"misclassified"}),
    ],
)
def test_nothing_is_drawn_for_what_is_empty(wrong, missing, tmp_path):
    scored = make_scored(wrong, num_examples=30)
    scores = all_scores(scored)
    figures = report_figures.draw_figures(scored, scores, "test")
    expected = FIGURES - {"training_curves"} - missing
    assert set(figures) == expected
    path = page.write_page(
        tmp_path,
        title="x",
        summary="",
        scores=scores,
        config={},
        environment={},
        figures=figures,
        tables={},
    )
    assert len(Page(path.read_text()).sources) == len(expected)


def test_broken_logits_are_reported_and_not_hidden(tmp_path):
    scored = make_scored()
    scored.logits[0] = np.nan
    scores = all_scores(scored)
    json.dumps(scores, allow_nan=False)
    first, *classes = to_text(scores, "test").splitlines()
    assert first == "test split, 12 images: accuracy not known, loss not finite"
    assert classes[0].split() == ["a", "75.00%", "of", "4"]
    worst = "worst class: a by accuracy (75.00%), a by F1 (0.8571)"
    assert classes[3] == worst
    assert scores["accuracy"] is None and scores["generalization_gap"] is None
    figures = report_figures.draw_figures(scored, scores, "test")
    assert "sample_predictions" in figures and "misclassified" not in figures
    page.write_page(
        tmp_path,
        title="x",
        summary="",
        scores=scores,
        config={},
        environment={},
        figures=figures,
        tables=page.make_tables([], scored),
    )
    assert (tmp_path / "roc.csv").read_text().count("\n") == 1
    assert "accuracy,\n" in (tmp_path / "summary.csv").read_text()


def test_history_series_come_from_their_records():
    records = [
        {"split": "train", "epoch": 1.0, "loss": 2.0, "step_seconds": 0.3},
        {"split": "val", "epoch": 1.0, "accuracy": 0.5, "loss": None},
        {"split": "train", "epoch": 3.0, "loss": 1.0, "step_seconds": 0.1},
    ]
    series = curves.history_series(records)
    np.testing.assert_allclose(series["step_seconds"], [0.3, np.nan, 0.1])
    np.testing.assert_allclose(series["val_loss"], [np.nan] * 3)
    np.testing.assert_allclose(series["train_loss"], [2.0, np.nan, 1.0])
    np.testing.assert_allclose(series["val_accuracy"], [np.nan, 0.5, np.nan])
    records[0]["learning_rate"] = 1e-3
    rates = curves.history_series(records, muon_ratio=20)["muon_learning_rate"]
    np.testing.assert_allclose(rates, [0.02, np.nan, np.nan])


def test_people_and_model_are_named():
    scored = make_scored(wrong=[3])
    counts = np.eye(3, dtype=np.int64)[scored.dataset.labels] * 50
    differences = evaluate.compare_with_people(scored, counts)["largest_differences"]
    assert len(differences) == 12
    distance = differences[0].pop("distance")
    first = {"index": 3, "label": "a", "model": "b & <c>", "people": "a"}
    assert differences[0] == first
    # People all say a, to which the model gives this much less than 1.
    assert distance == pytest.approx(1 - 1 / (np.exp(5) + 2))
    titles = [
        axes.get_title() for axes in report_figures.draw_people(scored, counts).axes
    ]
    # The one mistake comes first: label a, taken for the second class.
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


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--confusion=1,2"], "--report"),
        (["--report", "--confusion=1, twelve"], "class twelve, which"),
        (["--human_labels=x.npy"], "--report"),
        (["--report", "--human_labels=nothing.npy"], "nothing.npy"),
    ],
)
def test_mistakes_with_options_of_the_report(tiny_run, arguments, words):
    with pytest.raises(UserError, match=words):
        main([f"--workdir={tiny_run[0]}", *arguments])
