"""Training curves from the records of a run."""

import numpy as np

from vit_jax.training import curves


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
