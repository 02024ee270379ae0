"""What the names and forms of tensors tell of a model."""

import numpy as np

from tests.pretrained.loading import OURS, TIMM, load


def test_a_norm_behind_the_pooling_is_taken_for_the_final_one():
    tensors = {
        name.replace("norm.", "fc_norm.") if name.startswith("norm.") else name: array
        for name, array in TIMM.items()
    }
    params, report = load(tensors)
    np.testing.assert_array_equal(params["final_norm/scale"], OURS["final_norm/scale"])
    assert report.differences["pooling"] == ("mean", "cls")
    _, report = load(TIMM | {"fc_norm.bias": np.ones(16, np.float32)})
    assert "fc_norm.bias" in report.dropped
