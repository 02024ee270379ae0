"""Residual networks in the form for CIFAR's small images."""

import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from vit_jax.models import backend
from vit_jax.models.initializers import UNIFORM_KERNEL
from vit_jax.models.norms import batch_norm

# He et al., 2015, "Delving Deep into Rectifiers": preserves the gradients' variance.
CONV_INIT = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


class ResidualBlock(nn.Module):
    """Convolutions with BatchNorm and a shortcut (He et al., 2016, figure 5).

    Attributes:
      width: channels of its 3x3 convolutions.
      stride: of the first 3x3 convolution, and of the shortcut.
      bottleneck: 1x1, 3x3, 1x1 with 4 * width channels out, in place of two 3x3.
    """

    width: int
    stride: int = 1
    bottleneck: bool = False
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, x: Float[Array, "batch height width channels"], *, train: bool
    ) -> Float[Array, "batch rows columns channels_out"]:
        conv, norm = _layers(self.dtype, train)
        if self.bottleneck:
            layers = [(1, 1, 1), (3, self.stride, 1), (1, 1, 4)]
        else:
            layers = [(3, self.stride, 1), (3, 1, 1)]
        channels_out = self.width * layers[-1][2]

        shortcut = x
        if self.stride != 1 or x.shape[-1] != channels_out:
            shortcut = conv(channels_out, 1, self.stride, name="shortcut_conv")(x)
            shortcut = norm(name="shortcut_norm")(shortcut)
        for i, (kernel, stride, expansion) in enumerate(layers, start=1):
            x = nn.relu(x) if i > 1 else x
            x = conv(self.width * expansion, kernel, stride, name=f"conv{i}")(x)
            x = norm(name=f"norm{i}")(x)
        return nn.relu(x + shortcut)


class ResNet(nn.Module):
    """ResNet (He et al., 2016, "Deep Residual Learning for Image Recognition").

    CIFAR's form: a 3x3 stem of stride 1 without max pooling, so that 32x32 images reach
    the last stage as 4x4. Sows, in the collection "intermediates", the feature maps
    "stem" and "stage1" to "stage4" and the pooled "features" (float32, the head's
    input). Adds an array "stage1" to "stage4" of the collection "perturbations", if it
    is given, to that stage's feature map, so that a derivative by it can be taken.

    Attributes:
      num_classes: length of the logits.
      stage_sizes: blocks of each stage; every stage but the first halves the image.
      bottleneck: which kind of block, see `ResidualBlock`.
      width: channels of the first stage; they double with each stage.
      dtype: of the computation. Parameters, the statistics of BatchNorm, features and
        logits are float32.
    """

    num_classes: int
    stage_sizes: tuple[int, ...] = (2, 2, 2, 2)
    bottleneck: bool = False
    width: int = 64
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self,
        images: Float[Array, "batch height width channels"],
        *,
        train: bool = False,
    ) -> Float[Array, "batch classes"]:
        conv, norm = _layers(self.dtype, train)
        x = conv(self.width, 3, 1, name="stem_conv")(images)
        x = nn.relu(norm(name="stem_norm")(x))
        self.sow("intermediates", "stem", x)
        for stage, num_blocks in enumerate(self.stage_sizes):
            for block in range(num_blocks):
                x = ResidualBlock(
                    self.width * 2**stage,
                    stride=2 if stage > 0 and block == 0 else 1,
                    bottleneck=self.bottleneck,
                    dtype=self.dtype,
                    name=f"stage{stage + 1}_block{block + 1}",
                )(x, train=train)
            name = f"stage{stage + 1}"
            self.sow("intermediates", name, x)
            if self.has_variable("perturbations", name):
                x = self.perturb(name, x)
        features = x.astype(jnp.float32).mean(axis=(1, 2))
        self.sow("intermediates", "features", features)
        # PyTorch's default, which the usual training recipes assume.
        head = nn.Dense(self.num_classes, kernel_init=UNIFORM_KERNEL, name="head")
        return head(features)


def _layers(dtype: DTypeLike, train: bool):
    """conv(channels, kernel, stride, name=...) and norm(name=...) of a network."""

    def conv(channels: int, kernel: int, stride: int, name: str) -> nn.Module:
        return nn.Conv(
            channels,
            (kernel, kernel),
            strides=stride,
            # Not "SAME", which at stride 2 would pad the bottom and the right only.
            padding=kernel // 2,
            use_bias=False,
            kernel_init=CONV_INIT,
            dtype=dtype,
            conv_general_dilated=backend.conv_general_dilated(),
            name=name,
        )

    return conv, batch_norm(dtype, train)
