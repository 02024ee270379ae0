"""A whole run: which checkpoint its results are of."""

import json
import os
import pathlib
import tempfile
import time
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vit_jax import evaluate
from vit_jax.config.settings import FIELDS
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run
from vit_jax.training.train import train_and_evaluate


@pytest.fixture(scope="module")
def last_epoch_run(tiny_config, tmp_path_factory):
    """(folder, results) of a run that holds nothing out and selects nothing."""
    workdir = tmp_path_factory.mktemp("runs") / "last"
    # Scores of a run that was here before, whose checkpoints were deleted.
    folder = RunFolder(workdir)
    folder.create()
    folder.write("config", tiny_config().to_dict())
    folder.write("results", {"other_checkpoints": {"3": {"test": {"loss": 9.0}}}})
    config = tiny_config(data__validation=0, data__select_on="nothing")
    return workdir, train_and_evaluate(config, workdir)


@pytest.mark.slow
def test_nothing_selected(last_epoch_run):
    workdir, results = last_epoch_run
    assert results["selected_on"] == "nothing" and results["val"] is None
    assert results["best_step"] == results["num_steps"] == 6
    assert "3" in os.listdir(workdir / "checkpoints")
    assert "other_checkpoints" not in results, "those scores are of other weights"
    splits = {record["split"] for record in RunFolder(workdir).read_metrics()}
    assert splits == {"train"}, "the test split is scored once, at the end"
    assert load_run(workdir).step == 6, "best is the last where nothing was selected"
    assert train_and_evaluate(load_run(workdir).config, workdir) == results


@pytest.mark.slow
def test_selected_on_the_test_split(tiny_config, tmp_path, no_curves):
    config = tiny_config(num_steps=3, data__validation=0, data__select_on="test")
    results = train_and_evaluate(config, tmp_path)
    assert results["selected_on"] == "test" and results["test"]["num_examples"] == 359
    assert results["val"] is None, "no image was held out"


@pytest.mark.slow
def test_report_where_nothing_was_held_out(last_epoch_run):
    workdir, _ = last_epoch_run
    evaluate.main([f"--workdir={workdir}", "--report"])
    test = RunFolder(workdir).read("results")["test"]
    assert test["calibration"]["after"]["temperature"] == 1
    assert test["generalization_gap"] is not None
    assert (workdir / "report.html").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule__name": "plateau"},
        {"early_stopping__patience": 2},
        {"early_stopping__target": 0.9},
    ],
)
def test_rules_that_wait_for_evaluations_need_some(tiny_config, tmp_path, changes):
    config = tiny_config(data__validation=0, data__select_on="nothing", **changes)
    with pytest.raises(UserError, match="no images are held out"):
        train_and_evaluate(config, tmp_path)


# Hypothesis draws from these what a setting takes; most are at an end of its range.
NUMBERS = [0, 1e-37, 1e-9, 0.1, 0.5, 0.999, 1, 2, 3.0, 30, 1e6, 3e38, -1, -3e38]
INTEGERS = [0, 1, 2, 3, 4, 7, 16, 64, 100, 1000, 4096, 2**31 - 1, 2**32 - 1]
DURATIONS = ["0 steps", "1 steps", "0.3 epochs", "50%", "1e3%", "2147483647 steps", 1e6]
LISTS = [(), (1,), (0.5,), (1e-37,), (3e38,), (0.1, 0.9), (1, 2), (2, 1), (8, 16, 32)]
TEXTS = [
    "",
    "~nosuchuser",
    "/dev/null",
    "a$b",
    "\udcff",
    "[",
    "(" * 99,
    "last 2 blocks",
]


def values_of(field):
    words = field.allowed.removeprefix("None or ").removeprefix("one of ").split(", ")
    options = [*words, None, True, False, *NUMBERS, *INTEGERS, *DURATIONS, *LISTS]
    options += TEXTS
    taken = []
    for value in options:
        try:
            field.convert(value)
        except (ValueError, TypeError, OverflowError, UserError):
            continue
        taken.append(value)
    return st.sampled_from(taken or [field.default])


# A large length is trained for as long as it says, which is no mistake.
LENGTHS = {
    "num_steps": st.sampled_from([None, -1, 0, 1, 3]),
    "num_epochs": st.sampled_from([None, -1, 0, 1e-9, 0.04]),
}
# They say where data are found, which other tests do, or hold settings of their own.
LEFT_OUT = {"data.source", "data.name", "stages"}
KEYS = sorted(set(FIELDS) - LEFT_OUT)
CHANGES = st.sampled_from(KEYS).flatmap(
    lambda key: st.tuples(st.just(key), LENGTHS.get(key) or values_of(FIELDS[key]))
)
# For the answer to a config, on a machine that compiles something else meanwhile.
MOST_SECONDS = 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_settings_are_trained_with_or_refused_in_a_sentence(tiny_config):
    @settings(
        max_examples=int(os.environ.get("FUZZ_EXAMPLES", "6")),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(CHANGES, min_size=1, max_size=3))
    def check(changes):
        # The epochs count where num_steps becomes None.
        config, begin = tiny_config(num_steps=2, num_epochs=0.04), time.monotonic()
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            try:
                for key, value in changes:
                    config[key] = value
                train_and_evaluate(config, pathlib.Path(folder, "run"))
            except UserError as error:
                assert "\n" not in str(error) and len(str(error)) < 3000
            else:
                results = pathlib.Path(folder, "run", "results.json").read_text()
                # A linear probe is solved without a step.
                least = 0 if config.linear_probe else 1
                assert least <= json.loads(results)["num_steps"] <= 4
        assert time.monotonic() - begin < MOST_SECONDS

    check()
