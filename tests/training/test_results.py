"""What results.json holds."""

from vit_jax.training.results import keep_scores


def test_results_hold_what_others_rely_on(tiny_run):
    _, results = tiny_run
    assert results["model"] == "vit" and results["selected_on"] == "val"
    assert results["num_params"] == 3_850
    assert results["best_step"] in (3, 6) and results["num_steps"] == 6
    assert results["num_train_examples"] == 1797 - 359 - 100 - 10 * 5
    assert results["test"]["num_examples"] == 359
    assert results["val"]["num_examples"] == 100
    for split in ("val", "test"):
        assert 0 <= results[split]["accuracy"] <= 1 and results[split]["loss"] > 0
        assert len(results[split]["per_class"]) == 10
    assert results["train_seconds"] > 0 and results["images_per_second"] > 0
    assert results["device"] == "cpu"


def test_scores_of_kept_checkpoints_outlast_the_end_of_the_training():
    new = {"best_step": 6, "val": {"accuracy": 0.6}}
    fitted = {"accuracy": 0.6, "calibration": 1, "train_accuracy_logged": 0.5}
    old = {
        "other_checkpoints": {
            "2": {"test": {"accuracy": 0.2}},
            "3": {"test": {"accuracy": 0.3}},
            "6": {"val": fitted, "train": {"accuracy": 1.0}},
        }
    }
    kept = keep_scores(old, new, steps=[3, 6])
    assert kept["val"] == {"accuracy": 0.6, "calibration": 1}
    assert kept["train"] == {"accuracy": 1.0}
    assert kept["other_checkpoints"] == {"3": {"test": {"accuracy": 0.3}}}
    assert keep_scores({}, new, [6]) == new == {"best_step": 6, "val": new["val"]}
    # A run that was made longer: what was its best checkpoint is another one now.
    before = {"best_step": 3, "test": {"accuracy": 0.3, "num_examples": 9}, "val": None}
    longer = keep_scores(before, new, steps=[3, 6])
    assert longer["other_checkpoints"] == {"3": {"test": before["test"]}}
