"""The figure of the feature maps of one image."""

import numpy as np

from vit_jax.figures import feature_maps, style

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(256, size=(2, 8, 8, 3), dtype=np.uint8)


def test_feature_maps(tmp_path):
    maps = {"stem": RNG.random((8, 8, 16)), "stage 2": RNG.random((4, 4, 2))}
    figure = feature_maps.feature_maps(IMAGES[0], maps, num_channels=3)
    picture, *rest = figure.axes
    np.testing.assert_array_equal(picture.images[0].get_array(), IMAGES[0])
    assert len(rest) == 3 + 2  # as many as there are, three at most
    np.testing.assert_array_equal(rest[1].images[0].get_array(), maps["stem"][..., 1])
    np.testing.assert_array_equal(
        rest[4].images[0].get_array(), maps["stage 2"][..., 1]
    )
    assert rest[3].get_title(loc="left") == "stage 2 (4 × 4 × 2)"
    assert style.save(figure, tmp_path / "f.png").stat().st_size > 3_000
