"""MixUp and CutMix: each image and its target are mixed with those of another."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key

from vit_jax.augment.geometry import rectangle


def random_beta(key: Key[Array, ""], *, alpha: float) -> Float32[Array, ""]:
    """A draw from Beta(alpha, alpha), alpha above 0.

    Bailey 1994 computes Student's t with 2 * alpha degrees of freedom from two uniform
    numbers, and (1 + t / sqrt(2 * alpha + t^2)) / 2 has this distribution. Unlike
    jax.random.beta it has no rejection loop, in which a GPU would wait for the host.
    """
    radius, angle = jax.random.uniform(key, (2,))
    cosine = jnp.cos(2 * jnp.pi * angle)
    # t^2 / (2 alpha); infinite for small alpha, which rightly gives 0 or 1.
    square = jnp.expm1(-jnp.log1p(-radius) / alpha) * cosine**2
    return 0.5 + 0.5 * jnp.sign(cosine) / jnp.sqrt(1 + 1 / square)


def random_fractions(
    key: Key[Array, ""],
    *,
    height: int,
    width: int,
    mixup_alpha: float,
    cutmix_alpha: float,
    prob: float,
    switch_prob: float,
) -> Float32[Array, "{height} {width}"]:
    """The fraction of itself, 0..1, that an image keeps at each pixel.

    MixUp (Zhang et al. 2018): one number from Beta(mixup_alpha, mixup_alpha) for all.
    CutMix (Yun et al. 2019): 0 in a rectangle and 1 elsewhere. The rectangle's area is
    1 - Beta(cutmix_alpha, cutmix_alpha) of the image and its centre is uniform; the
    part of it outside the image is cut off.

    Args:
      height, width: of the image, pixels.
      mixup_alpha: 0 for CutMix only.
      cutmix_alpha: 0 for MixUp only.
      prob: probability of either of them; otherwise every fraction is 1.
      switch_prob: probability of CutMix where both are switched on.
    """
    use_key, switch_key, mixup_key, cutmix_key, place_key = jax.random.split(key, 5)
    if mixup_alpha:
        mixup = jnp.full((height, width), random_beta(mixup_key, alpha=mixup_alpha))
    if cutmix_alpha:
        pasted = 1 - random_beta(cutmix_key, alpha=cutmix_alpha)
        size = jnp.array([height, width])
        half = (0.5 * jnp.sqrt(pasted) * size).astype(jnp.int32)
        centre = jax.random.randint(place_key, (2,), 0, size)
        box = rectangle(centre - half, centre + half, height=height, width=width)
        cutmix = 1.0 - box
    if mixup_alpha and cutmix_alpha:
        switch = jax.random.bernoulli(switch_key, switch_prob)
        fractions = jnp.where(switch, cutmix, mixup)
    else:
        fractions = mixup if mixup_alpha else cutmix
    return jnp.where(jax.random.bernoulli(use_key, prob), fractions, 1.0)


def random_mix(
    key: Key[Array, ""],
    images: Float32[Array, "b h w c"],
    targets: Float32[Array, "b k"],
    *,
    active: Bool[Array, ""],
    per: str,
    **options: float,
) -> tuple[Float32[Array, "b h w c"], Float32[Array, "b k"]]:
    """Mixes each image of a batch, and its targets, with the one before it.

    Batches are in random order, so the neighbour is as good a partner as one from a
    permutation; and where a batch is divided over several devices, each device sends
    one image to the next instead of all. Targets are mixed by the mean fraction over
    the pixels, which for CutMix is the area that the image has kept.

    Args:
      active: whether to mix; False returns images and targets unchanged.
      per: "batch" for one draw for all, "image" for one for each.
      **options: of `random_fractions`.
    """
    count, height, width, _ = images.shape
    keys = jax.random.split(key, count if per == "image" else 1)
    draw = partial(random_fractions, height=height, width=width, **options)
    fractions = jnp.where(active, jax.vmap(draw)(keys), 1.0)
    kept = fractions.mean((1, 2))[:, None]
    fractions = fractions[:, :, :, None]
    return (
        fractions * images + (1 - fractions) * jnp.roll(images, 1, axis=0),
        kept * targets + (1 - kept) * jnp.roll(targets, 1, axis=0),
    )
