"""Multiply-accumulates of a forward pass, counted from the shapes alone."""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn

from vit_jax.models.embeddings import halving_layers
from vit_jax.models.mae import MaskedAutoencoder
from vit_jax.models.resnet import ResNet
from vit_jax.models.vit import ViT


def count_macs(model: nn.Module, image_shape: tuple[int, int, int]) -> int | None:
    """Multiply-accumulates of one forward pass of one image [height, width, channels].

    The count includes convolutions (zero padding as well), dense layers and, for a ViT,
    the two products of attention and the weighted sum of sequence pooling. It excludes
    biases, normalisation, activations, softmax and averages. One multiply-accumulate is
    two floating-point operations. An autoencoder encodes the visible patches only.

    Of any other model it is half the floating-point operations that XLA counts, among
    which are those that are excluded here, or None where XLA does not count them.
    """
    if isinstance(model, MaskedAutoencoder):
        return _autoencoder_macs(model, image_shape)
    if isinstance(model, ViT):
        return _vit_macs(model, image_shape)
    if isinstance(model, ResNet):
        return _resnet_macs(model, image_shape)
    return macs_by_xla(model, image_shape)


def macs_by_xla(model: nn.Module, image_shape: tuple[int, int, int]) -> int | None:
    """Half the floating-point operations of a forward pass by XLA's cost analysis.

    It is None where the device's backend has no such analysis, or counts none.
    """
    image = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    variables = jax.eval_shape(model.init, jax.random.key(0), image)
    forward = jax.jit(functools.partial(model.apply, train=False))
    analysis = forward.lower(variables, image).cost_analysis()
    flops = (analysis or {}).get("flops")
    return None if flops is None else round(flops / 2)


def _vit_macs(model: ViT, image_shape: tuple[int, int, int]) -> int:
    height, image_width, _ = image_shape
    width = model.width
    num_patches = height * image_width // model.patch_size**2
    num_tokens = num_patches + model.num_prefix_tokens + model.num_registers
    blocks = model.depth * _block_macs(num_tokens, width, model.mlp_ratio)
    # Sequence pooling: a score for each patch, then the sum of the weighted patches.
    pooling = 2 * num_patches * width if model.pooling == "sequence" else 0
    heads = max(1, model.num_prefix_tokens) * width * model.num_classes
    return _stem_macs(model, image_shape) + blocks + pooling + heads


def _autoencoder_macs(
    model: MaskedAutoencoder, image_shape: tuple[int, int, int]
) -> int:
    height, image_width, channels = image_shape
    width = model.decoder_width
    num_patches = height * image_width // model.patch_size**2
    num_encoded = model.num_visible(num_patches) + model.num_prefix_tokens
    encoder = model.depth * _block_macs(
        num_encoded + model.num_registers, model.width, model.mlp_ratio
    )
    decoder = model.decoder_depth * _block_macs(
        num_patches + model.num_prefix_tokens, width, model.mlp_ratio
    )
    embedding = num_encoded * model.width * width
    pixels = num_patches * width * model.patch_size**2 * channels
    return _stem_macs(model, image_shape) + encoder + embedding + decoder + pixels


def _block_macs(num_tokens: int, width: int, mlp_ratio: float) -> int:
    attention = num_tokens * 4 * width**2 + 2 * num_tokens**2 * width
    return attention + num_tokens * 2 * width * round(width * mlp_ratio)


def _stem_macs(model: ViT, image_shape: tuple[int, int, int]) -> int:
    if model.stem == "conv":
        return _conv_stem_macs(model, image_shape)
    height, width, channels = image_shape
    views = 5 if model.stem == "shifted_patch" else 1
    return height * width * channels * views * model.width


def _conv_stem_macs(model: ViT, image_shape: tuple[int, int, int]) -> int:
    height, width, channels_in = image_shape
    has_norm = model.stem_norm == "batch"
    layers = model.stem_channels if has_norm else (*model.stem_channels, model.width)
    halving = halving_layers(len(layers), model.patch_size)
    macs = 0
    for i, channels in enumerate(layers):
        before = height * width
        if i in halving:
            height, width = height // 2, width // 2
        # Pooling comes after the convolution, which is computed at every pixel.
        pixels = height * width if model.stem_downsampling == "stride" else before
        macs += pixels * 9 * channels_in * channels
        channels_in = channels
    return macs + has_norm * height * width * channels_in * model.width


def _resnet_macs(model: ResNet, image_shape: tuple[int, int, int]) -> int:
    height, width, channels_in = image_shape
    channels = model.width
    macs = height * width * 9 * channels_in * channels
    channels_in = channels
    for stage, num_blocks in enumerate(model.stage_sizes):
        channels = model.width * 2**stage
        channels_out = channels * (4 if model.bottleneck else 1)
        for block in range(num_blocks):
            before = height * width
            stride = 2 if stage > 0 and block == 0 else 1
            height, width = -(-height // stride), -(-width // stride)
            pixels = height * width
            if model.bottleneck:
                macs += before * channels_in * channels
                macs += pixels * (9 * channels**2 + channels * channels_out)
            else:
                macs += pixels * 9 * (channels_in * channels + channels**2)
            if stride != 1 or channels_in != channels_out:
                macs += pixels * channels_in * channels_out
            channels_in = channels_out
    return macs + channels_in * model.num_classes
