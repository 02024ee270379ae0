from vit_jax import data, models
from vit_jax.training.experiment import make_experiment
from vit_jax.training.summary import summarize


def test_the_summary_says_what_the_run_will_do(tiny_config):
    splits = data.load(tiny_config().data)
    experiment = make_experiment(tiny_config(), splits)
    num_params = models.count_params(experiment.init_state().params)
    text = summarize(experiment, num_params)
    for words in (
        "1 x cpu (cpu), float32", "8x8x1 images", "train 1,338", "test 359", "val 100",
        "selects on the hold-out", "vit, 3,850 parameters", "GFLOPs", "6 steps of 16",
        "adamw", "warmup_cosine",
    ):  # fmt: skip
        assert words in text
    same = {**splits, "val": splits["test"]}
    config = tiny_config(data__select_on="test", data__validation=0)
    text = summarize(make_experiment(config, same), num_params)
    assert "selects on the test split" in text and "val 359" not in text


def test_every_rate_is_named_and_no_word_twice(tiny_config):
    splits = data.load(tiny_config().data)
    config = tiny_config(optim__name="muon", optim__muon_learning_rate=0.03)
    text = summarize(make_experiment(config, splits), 1)
    assert (
        "muon, peak rate 0.03 for the blocks' matrices and 0.001 for the rest" in text
    )
    assert "data  digits, 8x8x1 images" in text
