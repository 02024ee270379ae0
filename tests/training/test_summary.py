import importlib.util

import numpy as np
from flax import linen as nn

from vit_jax import models
from vit_jax.training.experiment import make_experiment
from vit_jax.training.summary import describe_results, describe_stage, summarize


def test_the_summary_says_what_the_run_will_do(tiny_config, splits):
    experiment = make_experiment(tiny_config(), splits)
    num_params = models.count_params(experiment.init_state().params)
    text = summarize(experiment, num_params)
    for words in (
        "1 x cpu (cpu), float32", "8x8x1 images", "train 1,338", "test 359", "val 100",
        "selects on the hold-out", "vit, 3,850 parameters", "GFLOPs", "6 steps of 16",
        "adamw", "warmup_cosine",
    ):  # fmt: skip
        assert words in text
    assert "note" not in text
    few = splits["val"].select(np.flatnonzero(splits["val"].labels < 5))
    experiment = make_experiment(tiny_config(), {**splits, "val": few})
    assert "; note: val has no image of 5, 6, 7, 8 and 1 more" in summarize(
        experiment, num_params
    )
    config = tiny_config(batch_size=2000, linear_probe=True)
    text = summarize(make_experiment(config, splits), num_params)
    assert "linear probe" in text and "those of random weights" in text
    text = describe_stage(make_experiment(tiny_config(batch_size=2000), splits))
    assert "a batch is more than the 1,338 training images" in text
    same = {**splits, "val": splits["test"]}
    config = tiny_config(data__select_on="test", data__validation=0)
    text = summarize(make_experiment(config, same), num_params)
    assert "selects on the test split" in text and "val 359" not in text


def test_a_stage_says_how_many_parameters_it_trains(tiny_config, splits):
    stages = [{"num_steps": 2, "optim.trainable": "head"}, {"num_steps": 3}]
    first, second = (
        describe_stage(make_experiment(tiny_config(stages=stages), splits, stage))
        for stage in range(2)
    )
    assert first.startswith("stage 1 of 2: 2 steps")
    assert "; head trained (170 parameters); note: the others keep their r" in first
    assert second.endswith("; all trained (3,850 parameters)")
    assert "trained" not in describe_stage(make_experiment(tiny_config(), splits))


def test_every_rate_is_named_and_no_word_twice(tiny_config, splits):
    config = tiny_config(
        optim__name="muon", optim__muon_learning_rate=0.03, optim__layer_decay=0.5
    )
    text = summarize(make_experiment(config, splits), 1)
    assert (
        "muon, peak rate 0.03 for the blocks' matrices and 0.001 for the rest, "
        "times 0.5 for each layer below the head" in text
    )
    config.optim.muon_convolutions = True
    text = summarize(make_experiment(config, splits), 1)
    assert "0.03 for matrices and convolutions and 0.001 for the rest" in text
    assert "data  digits, 8x8x1 images" in text


RESULTS = {
    "test": {"accuracy": 0.9, "num_examples": 100}, "model": "vit", "best_step": 468,
    "selected_on": "val", "train_seconds": 33.25,
}  # fmt: skip


def test_the_result_has_an_interval_and_what_to_type_next():
    results = dict(RESULTS)
    first, *_, report, explain, predict = describe_results(results, "r").splitlines()
    assert first == (
        "test accuracy 90.00% (95% interval 82.56% to 94.48%) on 100 images; "
        "checkpoint of step 468, selected on images held out from training; 33.2 s of "
        "training"
    )
    assert report == "  python -m vit_jax.evaluate --workdir=r --report"
    for command in (report, explain, predict):
        module = command.split()[2]
        assert importlib.util.find_spec(module)
    results["test"] = {"accuracy": None, "num_examples": 100, "per_class": {}}
    assert describe_results(results, "r").startswith("test accuracy not known on 100")
    results["test"] = {"accuracy": None, "num_examples": 100, "loss": 0.5}
    assert "test reconstruction loss 0.5000 on 100" in describe_results(results, "r")
    results["test"]["loss"] = None  # as results.json has a number that is not finite
    assert "test reconstruction loss not known on" in describe_results(results, "r")
    assert "--config.pretrained.path=r" in describe_results(results, "r")


def test_heat_maps_are_not_suggested_for_a_model_of_ones_own(monkeypatch):
    monkeypatch.setitem(models.MODELS, "own", nn.Dense)
    text = describe_results(RESULTS | {"model": "own"}, "r")
    assert "vit_jax.predict" in text and "vit_jax.explain" not in text
