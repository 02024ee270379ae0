"""Random erasing of one image, after normalisation, as torchvision does it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from vit_jax.augment.geometry import random_part, rectangle


def random_erase(
    key: Key[Array, ""],
    image: Float32[Array, "h w c"],
    *,
    prob: float,
    fill: float | str,
    area: tuple[float, float] = (0.02, 0.33),
    ratio: tuple[float, float] = (0.3, 3.3),
) -> Float32[Array, "h w c"]:
    """Overwrites a rectangle with probability `prob` (Zhong et al. 2017).

    The rectangle is lower and narrower than the image.

    Args:
      image: normalised, so that 0 is the mean colour.
      prob: 0..1.
      fill: a number, or "noise" from a standard normal for each value.
      area: smallest and largest fraction of the image, 0..1.
      ratio: smallest and largest height over width.
    """
    height, width, _ = image.shape
    use_key, part_key, noise_key = jax.random.split(key, 3)
    start, size = random_part(
        part_key,
        height=height,
        width=width,
        area=area,
        ratio=ratio,
        largest=(height - 1, width - 1),
        otherwise=(0, 0),
    )
    inside = rectangle(start, start + size, height=height, width=width)
    used = jax.random.bernoulli(use_key, prob)
    new = jax.random.normal(noise_key, image.shape) if fill == "noise" else fill
    return jnp.where((inside & used)[:, :, None], new, image)
