"""Weights of a tiny ViT in every layout, made of one set of random numbers."""

import json
import struct

import numpy as np

WIDTH, HEADS, DEPTH, PATCH = 16, 2, 2, 8


def numpy_vit(*, classes=5):
    """Parameters by our names, of a ViT for images of 3 x 3 patches."""
    rng = np.random.default_rng(0)
    head = WIDTH // HEADS
    shapes = {
        "class_token": (1, 1, WIDTH),
        "positions": (1, 1 + 3 * 3, WIDTH),
        "stem/projection/kernel": (PATCH, PATCH, 3, WIDTH),
        "stem/projection/bias": (WIDTH,),
        "final_norm/scale": (WIDTH,),
        "final_norm/bias": (WIDTH,),
        "head/kernel": (WIDTH, classes),
        "head/bias": (classes,),
    }
    for i in range(DEPTH):
        block = {
            "norm1/scale": (WIDTH,),
            "norm1/bias": (WIDTH,),
            "attention/qkv/kernel": (WIDTH, 3, HEADS, head),
            "attention/qkv/bias": (3, HEADS, head),
            "attention/out/kernel": (HEADS, head, WIDTH),
            "attention/out/bias": (WIDTH,),
            "norm2/scale": (WIDTH,),
            "norm2/bias": (WIDTH,),
            "mlp/hidden/kernel": (WIDTH, 2 * WIDTH),
            "mlp/hidden/bias": (2 * WIDTH,),
            "mlp/out/kernel": (2 * WIDTH, WIDTH),
            "mlp/out/bias": (WIDTH,),
        }
        shapes |= {f"block{i}/{name}": shape for name, shape in block.items()}
    return {
        name: 0.2 * rng.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def google_tensors(ours, *, big_vision=False, scanned=False):
    """The same in vision_transformer's names, or big_vision's."""
    attention, norm2, mlp = (
        ("MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0")
        if big_vision
        else ("MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3")
    )
    layers = {
        "stem/projection": "embedding",
        "norm1": "LayerNorm_0",
        "norm2": norm2,
        "attention/out": f"{attention}/out",
        "mlp/hidden": f"{mlp}/Dense_0",
        "mlp/out": f"{mlp}/Dense_1",
        "final_norm": "Transformer/encoder_norm",
        "head": "head",
    }
    positions = "pos_embedding"
    if not big_vision:
        positions = "Transformer/posembed_input/pos_embedding"
    result = {"cls": ours["class_token"], positions: ours["positions"]}
    for name, array in ours.items():
        layer, _, leaf = name.rpartition("/")
        prefix = ""
        if name.startswith("block"):
            block, _, layer = layer.partition("/")
            prefix = f"Transformer/encoderblock_{block.removeprefix('block')}/"
        if layer == "attention/qkv":
            for i, part in enumerate(("query", "key", "value")):
                piece = array[:, i] if leaf == "kernel" else array[i]
                result[f"{prefix}{attention}/{part}/{leaf}"] = piece
        elif layer:
            result[f"{prefix}{layers[layer]}/{leaf}"] = array
    if scanned:
        for name in [x for x in result if "encoderblock_0/" in x]:
            blocks = [
                result.pop(name.replace("block_0/", f"block_{i}/"))
                for i in range(DEPTH)
            ]
            result[name.replace("block_0/", "block/")] = np.stack(blocks)
    prefix = "params/" if big_vision else ""
    return {prefix + name: array for name, array in result.items()}


def timm_tensors(ours):
    """The same in timm's names."""
    layers = {
        "stem/projection": "patch_embed.proj",
        "attention/qkv": "attn.qkv",
        "attention/out": "attn.proj",
        "mlp/hidden": "mlp.fc1",
        "mlp/out": "mlp.fc2",
        "final_norm": "norm",
    }
    tokens = {"class_token": "cls_token", "positions": "pos_embed"}
    result = {}
    for name, array in ours.items():
        layer, _, leaf = name.rpartition("/")
        prefix = ""
        if name.startswith("block"):
            block, _, layer = layer.partition("/")
            prefix = f"blocks.{block.removeprefix('block')}."
        if leaf == "kernel":
            if array.ndim == 4 and layer.startswith("stem"):
                array = array.transpose(3, 2, 0, 1)
            elif layer == "attention/out":
                array = array.reshape(-1, WIDTH).T
            else:
                array = array.reshape(array.shape[0], -1).T
        elif layer == "attention/qkv":
            array = array.reshape(-1)
        if layer:
            leaf = "bias" if leaf == "bias" else "weight"
            result[f"{prefix}{layers.get(layer, layer)}.{leaf}"] = array
        else:
            result[tokens[name]] = array
    return result


def safetensors_bytes(tensors, **changes):
    """A file of float32 tensors; `changes` replace entries of its header."""
    header, data = {}, b""
    for name, array in tensors.items():
        end = len(data) + array.nbytes
        header[name] = {
            "dtype": "F32",
            "shape": array.shape,
            "data_offsets": [len(data), end],
        }
        data += np.ascontiguousarray(array).tobytes()
    text = json.dumps(header | changes).encode()
    return struct.pack("<Q", len(text)) + text + data
