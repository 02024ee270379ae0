"""The evaluate command on a run of six steps."""

import pytest

from vit_jax import evaluate
from vit_jax.errors import UserError
from vit_jax.evaluate import main
from vit_jax.runs.folder import RunFolder


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


def test_the_evaluate_command(copied_run, tiny_run, capsys):
    evaluate.main([f"--workdir={copied_run}"])
    out = capsys.readouterr().out
    assert "predictions among 359 images" in out and "| 9 " in out
    folder = RunFolder(copied_run)
    # Scoring the selected checkpoint again gives the same numbers again.
    assert folder.read("results") == tiny_run[1]
    evaluate.main([f"--workdir={copied_run}", "--checkpoint=3", "--split=train"])
    results = folder.read("results")
    place = results if results["best_step"] == 3 else results["other_checkpoints"]["3"]
    assert place["train"]["num_examples"] == 1288
    assert results["test"] == tiny_run[1]["test"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--split=tset"], 'did you mean "test"'),
        (["--checkpoint=17"], "17"),
        (["--data_sorce=digits"], '"--data_source"'),
        (["--config.data.dir=x"], '"--data_dir"'),
        (["--eval_batch_size=0"], "eval_batch_size is 0"),
        (["--wrokdir=x"], '"--workdir"'),
        (["--config.model.depth=3"], "of a trained run's settings only --data_source"),
    ],
)
def test_mistakes_on_evaluates_command_line(copied_run, arguments, words):
    with pytest.raises(UserError, match=words):
        evaluate.main([f"--workdir={copied_run}", *arguments])
