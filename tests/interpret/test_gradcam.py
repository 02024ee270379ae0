"""Grad-CAM and feature maps of untrained models."""

import numpy as np
import pytest

from tests.interpret.untrained import CLASSES, IMAGES, make_resnet_run, make_run
from vit_jax import models
from vit_jax.interpret import gradcam


@pytest.mark.slow
def test_grad_cam_of_the_last_stage_is_the_class_activation_map():
    """The head is linear in the mean of the features (Zhou et al., 2016)."""
    run = make_resnet_run()
    maps = gradcam.feature_maps(run, IMAGES)
    assert list(maps) == ["stem", "stage1", "stage2"]
    kernel = np.asarray(run.variables["params"]["head"]["kernel"])
    found = gradcam.grad_cam(run, IMAGES, CLASSES)
    by_hand = np.einsum("bijf,fb->bij", maps["stage2"], kernel[:, CLASSES]) / 16
    np.testing.assert_allclose(
        found, np.maximum(by_hand, 0), rtol=1e-4, atol=1e-5 * np.abs(by_hand).max()
    )
    assert gradcam.grad_cam(run, IMAGES, CLASSES, 1).shape == (3, 8, 8)


@pytest.mark.slow
def test_feature_maps_are_in_the_order_of_the_stages():
    model = models.ResNet(num_classes=4, stage_sizes=(1,) * 10, width=1)
    maps = gradcam.feature_maps(make_run(model), IMAGES)
    assert list(maps) == ["stem", *(f"stage{i}" for i in range(1, 11))]
