"""The report of a run: its figures, and the folder that it is written to."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from matplotlib.container import BarContainer

from tests.analysis.made import BOTH_TEST_SETS, FIGURES, Page, all_scores, make_scored
from tests.rows import slow
from vit_jax.analysis import page, report, report_figures
from vit_jax.analysis.quantities import to_text
from vit_jax.evaluate import main
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run


@pytest.mark.slow
def test_every_figure_is_drawn(reported):
    drawn = {path.stem for path in (reported / "figures").glob("*.png")}
    assert drawn == FIGURES | BOTH_TEST_SETS | {"disagreements_with_people"}


@pytest.mark.slow
def test_the_summary_says_what_selected_its_checkpoint(reported):
    rows = (reported / "summary.csv").read_text().splitlines()
    step = RunFolder(reported).read("results")["best_step"]
    assert {"split,test", f"step,{step}", "selected_on,val"} <= {*rows}


def test_another_checkpoint_was_not_selected(tiny_run):
    run, results = load_run(tiny_run[0]), tiny_run[1]
    assert report.selected_on(run, results) == "val"
    assert report.selected_on(dataclasses.replace(run, step=1), results) is None


def test_subset_figures_show_the_subset():
    test, subset = make_scored(), make_scored([0], num_examples=6)
    figures = report_figures.draw_subset_test(test, subset)
    axes = figures["accuracy_on_both_test_sets"].axes[0]
    groups = [c for c in axes.containers if isinstance(c, BarContainer)]
    heights = [[bar.get_height() for bar in bars] for bars in groups]
    assert heights == [[100, 100, 100], [50, 100, 100]]
    matrix = figures["subset_test_confusion_matrix"].axes[0]
    assert sorted(text.get_text() for text in matrix.texts) == [
        "1\n50.0%",
        "1\n50.0%",
        "2\n100.0%",
        "2\n100.0%",
    ]


@pytest.mark.slow
def test_the_reports_numbers_survive_a_plain_evaluation(reported, tmp_path):
    reported = shutil.copytree(reported, tmp_path / "tiny")
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


def test_only_the_selected_checkpoint_is_called_so(tiny_run):
    workdir, results = tiny_run
    run = load_run(workdir)
    scores = {"num_examples": 359, "num_params": 10, "accuracy": 0.5}
    text = report.summarize(run, scores, "test", results)
    assert "trained for" in text and "selected on images held out" in text
    assert "optimistic" not in text
    text = report.summarize(run, scores, "val", results)
    assert text.endswith("held out from training, which are these: that is optimistic.")
    other = dataclasses.replace(run, step=run.step - 1)
    text = report.summarize(other, scores, "test", results)
    assert "trained for" not in text and text.endswith(f"of step {run.step - 1:,}.")


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
def test_other_reports_stand_apart_and_may_have_galleries(trained, reported, capsys):
    def contents():
        files = (*reported.glob("*.*"), *(reported / "figures").iterdir())
        return {file: file.read_bytes() for file in files if file.stem != "results"}

    before, (workdir, results) = contents(), trained
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
    gallery.parent.mkdir(parents=True)
    stale = gallery.with_stem("confusion_of_an_earlier_report")
    stale.write_text("not asked for any more")
    main([*command, *galleries])
    assert "no image of {} is predicted as {}\n".format(*never) in (
        capsys.readouterr().out
    )
    drawn = {path.stem for path in gallery.parent.iterdir()}
    assert drawn == FIGURES | {gallery.stem}
    shown = Page((folder / "report.html").read_text())
    title = f"{true} predicted as {predicted}\n{min(16, pair['count'])} of"
    assert any(title in image["alt"] for image in shown.images)
    assert "val split" in shown.text
    assert contents() == before
    assert (folder / "roc.csv").exists() and (folder / "history.csv").exists()


@pytest.mark.parametrize(
    "wrong, missing",
    [
        slow([], {"misclassified", "confident_mistakes", "top_confusions", "roc"}),
        slow(range(30), set()),
        # The confident mistakes are all of them, and one image is an accident.
        ([3], {"misclassified", "top_confusions"}),
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


@pytest.mark.slow
def test_broken_logits_are_reported_and_not_hidden(tmp_path):
    scored = make_scored()
    scored.logits[0] = np.nan
    scores = all_scores(scored)
    json.dumps(scores, allow_nan=False)
    lines = to_text(scores, "test").splitlines()
    assert any(line.startswith("Accuracy: –;") for line in lines)
    assert any(line.startswith("Worst class: a (75.00%);") for line in lines)
    assert lines[-3].split()[:6] == ["|", "a", "|", "4", "|", "75.0%"]
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
