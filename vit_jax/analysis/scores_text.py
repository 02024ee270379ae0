"""Scores of a split in lines for a terminal."""

import functools
from collections.abc import Mapping
from typing import Any

from vit_jax.analysis import latency, quantities
from vit_jax.metrics import classification


def to_text(scores: Mapping[str, Any], split: str) -> str:
    """Scores of a split, as results.json holds them, in lines for a terminal."""
    percent = functools.partial(quantities.percent, unknown="not known")
    loss = "not finite" if scores["loss"] is None else f"{scores['loss']:.4f}"
    first = f"accuracy {percent(scores['accuracy'])}"
    if scores["accuracy"] is not None:
        interval = classification.accuracy_interval(
            scores["accuracy"], scores["num_examples"]
        )
        first += " (95% interval {:.2%} to {:.2%})".format(*interval)
    first += f", loss {loss}"
    if "top_5_accuracy" in scores:
        first += f", top-5 {percent(scores['top_5_accuracy'])}"
    width = max(map(len, scores["per_class"]))
    lines = [
        f"  {name:<{width}}  {percent(one['accuracy']):>9} of {one['support']:,}"
        for name, one in scores["per_class"].items()
    ]
    support = [one["support"] for one in scores["per_class"].values()]
    if max(support) > 1.5 * min(support):
        majority = scores["majority_class"]
        lines.append(
            f"balanced accuracy {percent(scores['balanced_accuracy'])}; always "
            f"answering {majority['name']} would be right for "
            f"{percent(majority['accuracy'])}"
        )
    worst, least = scores["worst_class"], scores["worst_class_by_accuracy"]
    lines.append(
        f"worst class: {least['name']} by accuracy ({percent(least['accuracy'])}), "
        f"{worst['name']} by F1 ({worst['f1']:.4f})"
    )
    if "mirrored" in scores:
        accuracy = percent(scores["mirrored"]["accuracy"])
        lines.append(f"averaged with the mirror image: accuracy {accuracy}")
    if "latency" in scores:
        lines.append(latency.to_text(scores["latency"]))
    start = f"{split} split, {scores['num_examples']:,} images"
    return "\n".join((f"{start}: {first}", *lines))
