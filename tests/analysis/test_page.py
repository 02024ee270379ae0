"""The page and the tables of a report."""

import csv
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from tests.analysis.made import BOTH_TEST_SETS, FIGURES, Page
from vit_jax.analysis import page
from vit_jax.data import Dataset
from vit_jax.figures import style
from vit_jax.runs.folder import RunFolder
from vit_jax.training.scoring import describe_scores


@pytest.mark.slow
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


@pytest.mark.slow
def test_curves_as_csv(reported):
    history = list(csv.DictReader((reported / "history.csv").read_text().splitlines()))
    records = RunFolder(reported).read_metrics()
    assert len(history) == len(records) > 2
    for row, record in zip(history, records, strict=True):
        assert (row["split"], int(row["step"])) == (record["split"], record["step"])
        for key in ("epoch", "loss", "accuracy", "seconds"):
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


@pytest.mark.slow
def test_the_page_needs_no_other_file(reported):
    shown = Page((reported / "report.html").read_text())
    assert len(shown.sources) == len(FIGURES | BOTH_TEST_SETS) + 1
    assert all(s.startswith("data:image/png;base64,iVBOR") for s in shown.sources)
    for words in ("Generalisation gap", "Balanced accuracy", "359", "jax"):
        assert words in shown.text


@pytest.mark.slow
def test_the_page_names_its_figures_and_shows_them_in_their_size(reported):
    shown = Page((reported / "report.html").read_text())
    widths = {image["alt"]: int(image["width"]) for image in shown.images}
    assert len(widths) == len(shown.images)
    # The file has 150 dots per inch, and a page has 96 pixels per inch.
    with Image.open(reported / "figures" / "training_curves.png") as figure:
        assert widths["Training curves of tiny"] == round(figure.width / 150 * 96)
    assert "Confusion matrix (test)" in widths


@pytest.mark.slow
def test_the_page_opens_with_its_result(reported):
    text = (reported / "report.html").read_text()
    (summary,) = re.findall('<p class="summary">(.*?)</p>', text)
    scores = RunFolder(reported).read("results")["test"]
    assert re.match(
        rf"tiny, a vit with {scores['num_params']:,} parameters trained for [0-9.]+ "
        rf"s, classifies {scores['accuracy']:.2%} of the 359 images of the test "
        r"split of digits correctly \(95% interval ", summary,
    )  # fmt: skip
    assert summary.endswith(", selected on images held out from training.")
    assert summary.count(". ") == 0
    order = [
        text.index(words)
        for words in (summary, "Training curves of", "Confusion matrix", "Numbers</h2>")
    ]
    assert order == sorted(order)
    # Settings are folded away, and no quantity has a dotted key.
    start = text.index("<details>")
    assert text.index("patch_size") > start
    assert not re.search(r"<td>[a-z_]+\.[a-z_.]+</td>", text)


TAKE_OVER = "document.body.innerHTML='taken over'"
NAMES = (f"<script>{TAKE_OVER}</script>", f'"><img src=x onerror="{TAKE_OVER}">',
         "no\udcffutf8", "\x1b[31m")  # fmt: skip


def write_page(folder, names):
    images = np.zeros((8, 4, 4, 1), np.uint8)
    dataset = Dataset(images, np.arange(8, dtype=np.int32) % 4, names)
    logits = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    return page.write_page(
        folder, title=names[0], summary=names[1], environment={"host": names[0]},
        scores=describe_scores(logits, dataset), tables={},
        config={"name": names[1], "a": {"b": names[0]}},
        figures={"confusion_matrix": style.new_figure(2, 2, names[0])},
    )  # fmt: skip


def test_names_add_no_element_and_no_attribute(tmp_path):
    hostile, plain = (
        Page(write_page(tmp_path / folder, names).read_text(encoding="utf-8"))
        for folder, names in (("hostile", NAMES), ("plain", tuple("abcd")))
    )
    assert hostile.elements == plain.elements
    assert NAMES[0] in hostile.text and NAMES[1] in hostile.text
    with (tmp_path / "hostile" / "per_class.csv").open(encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)][1:3] == list(NAMES[:2])


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no Chromium")
def test_a_browser_runs_nothing(tmp_path):
    path = write_page(tmp_path / "page", NAMES)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
               f"--user-data-dir={tmp_path}/profile", "--dump-dom"]  # fmt: skip

    def show(page):
        shown = subprocess.run(
            [*command, page.as_uri()], capture_output=True, text=True, timeout=120
        )
        return shown.stdout

    assert "<table" in show(path)
    # The same name, not escaped, does take over: the browser runs scripts.
    (tmp_path / "naive.html").write_text(f"<table></table>{NAMES[0]}")
    assert "<table" not in show(tmp_path / "naive.html")


def test_every_figure_has_a_caption():
    for name in FIGURES | BOTH_TEST_SETS | {"confusion_cat_dog"}:
        assert page.caption(name).endswith(".")


def test_curves_come_first_then_errors_and_galleries_last():
    names = ["confusion_cat_dog", "reliability", "confusion_matrix", "training_curves"]
    expected = ["training_curves", "confusion_matrix", "reliability"]
    assert page.in_order(names) == [*expected, "confusion_cat_dog"]
