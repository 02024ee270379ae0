"""Random erasing of one image, after normalisation, as torchvision does it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from vit_jax.augment.geometry import random_part, rectangle


def random_erase(
    key: Key[Array, ""], image: Float32[Array, "h w c"], *, prob: float, fill: str
) -> Float32[Array, "h w c"]:
    """Overwrites a rectangle with probability `prob` (Zhong et al. 2017).

    Its area is 2% to 33% of the image, its height over its width 0.3 to 3.3, and it is
    lower and narrower than the image.

    Args:
      key: draws all of this.
      image: normalised, so that 0 is the mean color.
      prob: 0..1.
      fill: "zero", or "noise" from a standard normal for each value.
    """
    height, width, _ = image.shape
    use_key, part_key, noise_key = jax.random.split(key, 3)
    start, size = random_part(
        part_key,
        height=height,
        width=width,
        area=(0.02, 0.33),
        ratio=(0.3, 3.3),
        largest=(height - 1, width - 1),
        otherwise=(0, 0),
    )
    inside = rectangle(start, start + size, height=height, width=width)
    used = jax.random.bernoulli(use_key, prob)
    new = jax.random.normal(noise_key, image.shape) if fill == "noise" else 0.0
    return jnp.where((inside & used)[:, :, None], new, image)
