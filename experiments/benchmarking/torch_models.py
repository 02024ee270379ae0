"""ViT and ResNet in plain PyTorch, the same networks as `vit_jax.models` has.

Written as a PyTorch user would: fused attention, and tensors NCHW (the caller moves a
ResNet to channels_last). Initial values are not those of the JAX models; a test copies
weights across, by the names of the layers, and compares logits.
"""

import torch
from torch import nn
from torch.nn import functional

from vit_jax import models
from vit_jax.models.embeddings import halving_layers


class Attention(nn.Module):
    def __init__(self, model: models.ViT):
        super().__init__()
        self.num_heads, self.dropout = model.num_heads, model.attention_dropout
        self.qkv = nn.Linear(model.width, 3 * model.width, bias=model.qkv_bias)
        self.out = nn.Linear(model.width, model.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        batch, num_tokens, width = tokens.shape
        qkv = self.qkv(tokens).view(batch, num_tokens, 3, self.num_heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind()
        mixed = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=self.dropout if self.training else 0.0
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, num_tokens, width))


class Block(nn.Module):
    """Pre-norm encoder block."""

    def __init__(self, model: models.ViT):
        super().__init__()
        hidden = round(model.width * model.mlp_ratio)
        self.norm1 = nn.LayerNorm(model.width, model.norm_eps)
        self.attention = Attention(model)
        self.norm2 = nn.LayerNorm(model.width, model.norm_eps)
        self.hidden = nn.Linear(model.width, hidden)
        self.out = nn.Linear(hidden, model.width)
        self.dropout = nn.Dropout(model.dropout)
        self.output_dropout = nn.Dropout(model.mlp_output_dropout)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        tokens = tokens + self.dropout(self.attention(self.norm1(tokens)))
        x = self.dropout(functional.gelu(self.hidden(self.norm2(tokens))))
        return tokens + self.output_dropout(self.dropout(self.out(x)))


class ViT(nn.Module):
    """The sizes, dropouts and norms of a `models.ViT`.

    It has the stem of patches or that of convolutions with BatchNorm and average
    pooling, a class token or the mean of the patches, pre-norm, learned positions and
    GELU; nothing else is written.
    """

    def __init__(self, model: models.ViT, image_size: int):
        super().__init__()
        num_patches = (image_size // model.patch_size) ** 2
        channels_in, patch_size = 3, model.patch_size
        self.stem = nn.Sequential()
        if model.stem == "conv":
            halving = halving_layers(len(model.stem_channels), patch_size)
            for i, channels in enumerate(model.stem_channels):
                conv = nn.Conv2d(channels_in, channels, 3, padding=1, bias=False)
                self.stem.add_module(f"conv{i}", conv)
                self.stem.add_module(f"norm{i}", nn.BatchNorm2d(channels))
                self.stem.append(nn.ReLU())
                if i in halving:
                    self.stem.append(nn.AvgPool2d(2))
                channels_in = channels
            patch_size = 1
        projection = nn.Conv2d(channels_in, model.width, patch_size, patch_size)
        self.stem.add_module("projection", projection)
        self.patch_norm = (
            nn.LayerNorm(model.width, model.norm_eps)
            if model.patch_norm
            else nn.Identity()
        )
        has_class_token = model.pooling == "cls"
        self.class_token = None
        if has_class_token:
            self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, model.width))
        self.positions = nn.Parameter(
            0.02 * torch.randn(1, num_patches + has_class_token, model.width)
        )
        self.dropout = nn.Dropout(model.embedding_dropout)
        self.blocks = nn.Sequential()
        for i in range(model.depth):
            self.blocks.add_module(f"block{i}", Block(model))
        self.final_norm = nn.LayerNorm(model.width, model.norm_eps)
        self.head = nn.Linear(model.width, model.num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stem(images).flatten(2).transpose(1, 2)
        x = self.patch_norm(x)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = self.final_norm(self.blocks(self.dropout(x + self.positions)))
        return self.head(x.mean(dim=1) if self.class_token is None else x[:, 0])


class ResidualBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        conv = nn.Conv2d
        self.conv1 = conv(channels_in, channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = conv(channels, channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut_conv = None
        if stride != 1 or channels_in != channels:
            self.shortcut_conv = conv(channels_in, channels, 1, stride, bias=False)
            self.shortcut_norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x
        if self.shortcut_conv is not None:
            shortcut = self.shortcut_norm(self.shortcut_conv(x))
        x = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(x)) + shortcut)


class ResNet(nn.Module):
    """A `models.ResNet` without bottlenecks."""

    def __init__(self, model: models.ResNet):
        super().__init__()
        self.stem_conv = nn.Conv2d(3, model.width, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(model.width)
        self.blocks, channels_in = nn.Sequential(), model.width
        for stage, num_blocks in enumerate(model.stage_sizes):
            channels = model.width * 2**stage
            for block in range(num_blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                made = ResidualBlock(channels_in, channels, stride)
                self.blocks.add_module(f"stage{stage + 1}_block{block + 1}", made)
                channels_in = channels
        self.head = nn.Linear(channels_in, model.num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.stem_norm(self.stem_conv(images)))
        return self.head(self.blocks(x).mean(dim=(2, 3)))


def make_model(model: models.ViT | models.ResNet, image_size: int) -> nn.Module:
    """The PyTorch counterpart of a JAX model, for square images of 3 channels."""
    if isinstance(model, models.ResNet):
        return ResNet(model)
    return ViT(model, image_size)
