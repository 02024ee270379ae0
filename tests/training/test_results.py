"""What results.json holds."""


def test_results_hold_what_others_rely_on(tiny_run):
    _, results = tiny_run
    assert results["model"] == "vit" and results["selected_on"] == "val"
    assert results["num_params"] == 3_850
    assert results["best_step"] in (3, 6) and results["num_steps"] == 6
    assert results["test"]["num_examples"] == 359
    assert results["val"]["num_examples"] == 100
    for split in ("val", "test"):
        assert 0 <= results[split]["accuracy"] <= 1 and results[split]["loss"] > 0
        assert len(results[split]["per_class"]) == 10
    assert results["train_seconds"] > 0 and results["images_per_second"] > 0
    assert results["device"] == "cpu"
