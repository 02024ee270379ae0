"""What the parameters of other libraries' ViTs are called here, in tables."""

import dataclasses
from typing import Any

# Layers, and tensors of their own, by name; "#" is the number of a block. Of two names
# for one of ours, `write` takes the first.
TIMM = {
    "cls_token": "class_token",
    "reg_token": "registers",
    "dist_token": "distillation_token",
    "pos_embed": "positions",
    "patch_embed.proj": "stem/projection",
    "patch_embed.norm": "patch_norm",
    "blocks.#.norm1": "block#/norm1",
    "blocks.#.attn.qkv": "block#/attention/qkv",
    "blocks.#.attn.q_norm": "block#/attention/query_norm",
    "blocks.#.attn.k_norm": "block#/attention/key_norm",
    "blocks.#.attn.proj": "block#/attention/out",
    "blocks.#.ls1": "block#/branch_scale1",
    "blocks.#.gamma_1": "block#/branch_scale1/scale",
    "blocks.#.norm2": "block#/norm2",
    "blocks.#.mlp.fc1": "block#/mlp/hidden",
    "blocks.#.mlp.fc2": "block#/mlp/out",
    "blocks.#.ls2": "block#/branch_scale2",
    "blocks.#.gamma_2": "block#/branch_scale2/scale",
    "norm": "final_norm",
    "fc_norm": "feature_norm",
    "head": "head",
    "head_dist": "distillation_head",
}
_HUGGING_FACE = {
    "embeddings.cls_token": "class_token",
    "embeddings.position_embeddings": "positions",
    "embeddings.patch_embeddings.projection": "stem/projection",
    "encoder.layer.#.layernorm_before": "block#/norm1",
    "encoder.layer.#.attention.attention.query": "block#/attention/query",
    "encoder.layer.#.attention.attention.key": "block#/attention/key",
    "encoder.layer.#.attention.attention.value": "block#/attention/value",
    "encoder.layer.#.attention.output.dense": "block#/attention/out",
    "encoder.layer.#.layernorm_after": "block#/norm2",
    "encoder.layer.#.intermediate.dense": "block#/mlp/hidden",
    "encoder.layer.#.output.dense": "block#/mlp/out",
    "layernorm": "final_norm",
    "classifier": "head",
}
# vision_transformer numbers all parts of a block in one sequence, big_vision each kind
# of part by itself.
_GOOGLE = {
    "cls": "class_token",
    "Transformer/posembed_input/pos_embedding": "positions",
    "pos_embedding": "positions",
    "embedding": "stem/projection",
    "Transformer/encoderblock_#/LayerNorm_0": "block#/norm1",
    "Transformer/encoderblock_#/LayerNorm_1": "block#/norm2",
    "Transformer/encoderblock_#/LayerNorm_2": "block#/norm2",
    **{
        f"Transformer/encoderblock_#/MultiHeadDotProductAttention_{i}/{part}": (
            f"block#/attention/{part}"
        )
        for i in (0, 1)
        for part in ("query", "key", "value", "out")
    },
    **{
        f"Transformer/encoderblock_#/MlpBlock_{i}/Dense_{j}": f"block#/mlp/{part}"
        for i in (0, 3)
        for j, part in enumerate(("hidden", "out"))
    },
    "Transformer/encoder_norm": "final_norm",
    "head": "head",
}

# Before timm's names in the checkpoints of DINO's own training.
DINO_PREFIXES = ("module.backbone.", "backbone.")

# Names that no model here has a place for, and why they can go.
DROPPED = {
    r"pre_logits[./].*": "a layer of pretraining between the features and the head",
    r"(module\.)?head\.(mlp|last_layer)\..*": "the projection of DINO's pretraining",
    r"(decoder_.*|(embeddings\.)?mask_token)": "used in pretraining only",
    r"pooler\..*": "Hugging Face's pooler, which its classifier does not read",
}


@dataclasses.dataclass(frozen=True)
class Layout:
    """A family of names.

    Attributes:
      marker: a name that every file of the family has.
      prefixes: that may stand before all names; the first that fits is taken.
      layers: the table of names.
      settings: of the model, beside its sizes, as the family's own code has them.
      resize: how that code resizes positions, see `fit.RULES`.
    """

    marker: str
    prefixes: tuple[str, ...]
    layers: dict[str, str]
    settings: dict[str, Any]
    resize: str


LAYOUTS = {
    "timm": Layout(
        "patch_embed.proj.weight",
        ("", *DINO_PREFIXES, "module.", "_orig_mod."),
        TIMM,
        {"norm_eps": 1e-6, "activation": "gelu", "norm_position": "pre"},
        "cubic_antialias",
    ),
    "google": Layout(
        "embedding/kernel",
        ("", "opt/target/", "params/", "params/img/"),
        _GOOGLE,
        {"norm_eps": 1e-6, "activation": "gelu_tanh", "norm_position": "pre"},
        "zoom",
    ),
    "hugging_face": Layout(
        "embeddings.patch_embeddings.projection.weight",
        ("", "vit."),
        _HUGGING_FACE,
        {"norm_eps": 1e-12, "activation": "gelu", "norm_position": "pre"},
        "cubic",
    ),
}
