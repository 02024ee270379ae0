"""Which parameters are trained, and at which fraction of the learning rate.

Parameters are named by their path, such as "block0/mlp/out/kernel".
"""

import re
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from flax import traverse_util

from vit_jax.errors import UserError, shorten, show


def trainable_names(params: Any, trainable: str) -> frozenset[str]:
    """The names of the parameters that `config.optim.trainable` describes.

    Args:
      params: tree of arrays or ShapeDtypeStructs.
      trainable: "all"; "head"; "last N blocks", with everything after them; or a
        regular expression, which a name must match from its beginning.

    Raises:
      UserError: the text describes no parameter, or there are not as many blocks.
    """
    names = list(traverse_util.flatten_dict(params, sep="/"))
    if trainable == "all":
        return frozenset(names)
    if last := re.fullmatch(r"last (\d+) blocks?", trainable):
        return _after_block(names, int(last[1]))
    pattern = r"(distillation_)?head(/|$)" if trainable == "head" else trainable
    try:
        found = frozenset(name for name in names if re.match(pattern, name))
    except re.error as error:
        raise UserError(
            f"config.optim.trainable is {show(trainable)}, which is no regular "
            f'expression ({error}); give one, or all, head, or "last 2 blocks".'
        ) from None
    if not found:
        layers = {name.split("/")[0] for name in names}
        layers = sorted(layers, key=lambda name: (name.startswith("block"), name))
        raise UserError(
            f"config.optim.trainable is {show(trainable)}, which no parameter's name "
            'begins with; give all, head, "last 2 blocks" or a regular expression for '
            f"names, which begin with {shorten(layers, 8)}."
        )
    return found


def _after_block(names: list[str], count: int) -> frozenset[str]:
    depth = num_blocks(names)
    if not 1 <= count <= depth:
        has, numbers = f"{depth} blocks named block0, block1, ...", f"1 to {depth}, or "
        if depth < 2:
            has = ("no blocks", "one block, block0")[depth]
            numbers = ("", "1, or ")[depth]
        raise UserError(
            f"config.optim.trainable asks for the last {count} blocks, but the model "
            f"has {has}; give {numbers}a regular expression."
        )
    return frozenset(name for name in names if layer_of(name, depth) > depth - count)


def num_blocks(names: Iterable[str]) -> int:
    """The number of encoder blocks, by the last one that has one of these names."""
    blocks = [int(found[1]) for n in names if (found := re.match(r"block(\d+)/", n))]
    return max(blocks, default=-1) + 1


def layer_of(name: str, depth: int) -> int:
    """0 for what comes before the blocks of a ViT, 1 to `depth` for them, then more.

    The decoder of a masked autoencoder comes after them.
    """
    if block := re.match(r"block(\d+)/", name):
        return 1 + int(block[1])
    after = ("final_norm/", "pool/", "head/", "distillation_head/", "decoder/")
    return depth + 1 if name.startswith(after) else 0


def split(params: Any, names: frozenset[str] | None) -> tuple[Any, Any]:
    """(the parameters of these names, all others), each a tree of its own.

    With `names` None, all of them.
    """
    if names is None:
        return params, {}
    flat = traverse_util.flatten_dict(params, sep="/")
    inside = {name: leaf for name, leaf in flat.items() if name in names}
    outside = {name: leaf for name, leaf in flat.items() if name not in names}
    return (
        traverse_util.unflatten_dict(inside, sep="/"),
        traverse_util.unflatten_dict(outside, sep="/"),
    )


def merge(inside: Any, outside: Any) -> Any:
    """The tree that `split` divided."""
    if not outside:
        return inside
    both = traverse_util.flatten_dict(inside) | traverse_util.flatten_dict(outside)
    return traverse_util.unflatten_dict(both)


def frozen_norms(batch_stats: Any, params: Any, frozen: Any) -> Any:
    """The collection "frozen" for the BatchNorms whose parameters are all frozen.

    `params` and `frozen` are what `split` returns. The collection is {} where there is
    no such norm, else a tree with a leaf "statistics" at the path of each, see
    `models.norms.BatchNorm`.
    """
    norms, fixed, moving = (
        {path[:-1] for path in traverse_util.flatten_dict(tree)}
        for tree in (batch_stats, frozen, params)
    )
    marks = {(*p, "statistics"): jnp.zeros(()) for p in norms & (fixed - moving)}
    return traverse_util.unflatten_dict(marks)


def scale_by_layer(updates: Any, decay: float, depth: int) -> Any:
    """The update of each layer times `decay` to the power of its distance from the head
    (Clark et al., 2020, "ELECTRA"; Bao et al., 2022, "BEiT").

    A head has the factor 1, the last block `decay`, and the embedding of the patches
    `decay` to the power of `depth` + 1. `depth` is the number of the model's blocks,
    not all of which need be trained.
    """

    def scale(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        return leaf * decay ** (depth + 1 - layer_of(name, depth))

    return jax.tree_util.tree_map_with_path(scale, updates)
