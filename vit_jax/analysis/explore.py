"""What a config's data hold and what training makes of them, in numbers and figures."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from vit_jax import augment, data, models
from vit_jax.figures import dataset as dataset_figures
from vit_jax.figures import embedding, images
from vit_jax.interpret.features import embed, pooled_features
from vit_jax.metrics import distances, duplicates, pixels
from vit_jax.runs.load import load_run
from vit_jax.training.experiment import make_plan

Splits = Mapping[str, data.Dataset]

# Side of the patches that are drawn where the model has none, in pixels.
_PATCH_PIXELS = 4
# Rows of a figure that can still be read.
_SHOWN_CLASSES = 20
_SHOWN_PAIRS = 16


def class_samples(
    dataset: data.Dataset, rng: np.random.Generator, num_samples: int = 10
) -> tuple[UInt8[np.ndarray, "k samples h w c"], list[str]]:
    """Equally many random images of each of the first classes; the classes' names."""
    counts = dataset.count_classes()
    shown = np.flatnonzero(counts)[:_SHOWN_CLASSES]
    num_samples = min(num_samples, int(counts[shown].min()))
    drawn = [
        rng.choice(np.flatnonzero(dataset.labels == label), num_samples, replace=False)
        for label in shown
    ]
    return dataset.images[np.stack(drawn)], [dataset.class_names[i] for i in shown]


def augmented_views(
    config: ConfigDict,
    dataset: data.Dataset,
    indices: np.ndarray,
    num_views: int = 8,
) -> UInt8[np.ndarray, "n views h w c"]:
    """What training sees of some images at its start, mixed with each other.

    Args:
      config: complete settings.
      dataset: the training split.
      indices: of the images in it.
      num_views: one for each pass over the data, from the first.
    """
    mean, std = data.normalization(config.data, dataset)
    view = jax.jit(
        augment.make_augment(
            config.augment,
            mean=mean,
            std=std,
            num_classes=dataset.num_classes,
            mix_until_step=make_plan(config, len(dataset)).mix_until,
            seed=config.seed,
        )
    )
    chosen = dataset.select(indices)
    views = []
    for epoch in range(num_views):
        normalized, _ = view(
            jax.random.key(epoch),
            jnp.asarray(chosen.images),
            jnp.asarray(chosen.labels),
            step=jnp.int32(0),
            epochs=jnp.full(len(indices), epoch, jnp.int32),
            indices=jnp.asarray(indices, jnp.int32),
        )
        views.append(np.asarray(normalized) * np.float32(std) + np.float32(mean))
    return (255 * np.stack(views, axis=1)).round().clip(0, 255).astype(np.uint8)


def describe_augmentation(config: ConfigDict, num_examples: int) -> str:
    """The parts that are on at the start of training, in a line."""
    config_augment = config.augment
    parts = [
        f"{part} {config_augment[part]}"
        for part in ("crop", "flip", "policy")
        if config_augment[part] != "none"
    ]
    if config_augment.erase_prob:
        parts.append("erasing")
    if config_augment.mix_prob and make_plan(config, num_examples).mix_until:
        parts += ["MixUp"] * bool(config_augment.mixup_alpha)
        parts += ["CutMix"] * bool(config_augment.cutmix_alpha)
    return "Augmentation: " + (", ".join(parts) or "none")


def compare_splits(
    splits: Splits,
) -> tuple[dict[str, dict[str, int]], dict[str, Figure]]:
    """Numbers of images with an exact and a near duplicate in another split.

    Returns:
      Of each pair of splits, such as "test in train", the number of images of the
      first; and a figure of the most similar pairs that are not equal.
    """
    names = list(splits)
    if splits.get("val") is splits["test"]:
        names.remove("val")
    counts, figures = {}, {}
    for i, name in enumerate(names):
        for other in names[:i]:
            ours, theirs = (np.asarray(splits[k].images) for k in (name, other))
            exact = np.unique(duplicates.exact_duplicates(ours, theirs)[:, 0])
            near, correlation = duplicates.near_duplicates(ours, theirs)
            unequal = ~np.isin(near[:, 0], exact)
            counts[f"{name} in {other}"] = {
                "exact": len(exact),
                "near": int(unequal.sum()),
            }
            shown = np.flatnonzero(unequal)[:_SHOWN_PAIRS]
            if len(shown):
                figures[f"duplicates_{name}_{other}"] = images.pairs(
                    ours[near[shown, 0]],
                    theirs[near[shown, 1]],
                    [
                        f"{name} {a} | {other} {b}, r = {r:.3f}"
                        for (a, b), r in zip(
                            near[shown], correlation[shown], strict=True
                        )
                    ],
                    title=f"Most similar images of {name} and {other}",
                )
    return counts, figures


def draw_data(
    config: ConfigDict, splits: Splits, rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Numbers, and figures by file name, of the images as they are."""
    train = splits["train"]
    mean, std = data.normalization(config.data, train)
    found = pixels.pixel_statistics(np.asarray(train.images))
    counts = {name: split.count_classes() for name, split in splits.items()}
    first = train.images[rng.integers(len(train))]
    used = "mean {}, std {}".format(
        *(", ".join(f"{255 * x:.1f}" for x in part) for part in (mean, std))
    )
    samples, names = class_samples(train, rng)
    figures = {
        "class_samples": images.class_samples(samples, names),
        "class_counts": dataset_figures.class_counts(counts, train.class_names),
        "channel_histograms": dataset_figures.channel_histograms(
            found.counts,
            found.mean,
            found.std,
            title=f"Pixel values\nconfig: {used}",
        ),
    }
    patch_size = models.model_settings(config.model)["patch_size"]
    if patch_size:
        figures["patches"] = images.image_and_patches(first, patch_size)
    side = patch_size or min(_PATCH_PIXELS, *train.images.shape[1:3])
    figures["class_patches"] = images.class_patches(samples[:, 0], names, side)
    summary = {
        "image_shape": train.images.shape[1:],
        "class_names": train.class_names,
        "class_counts": {name: count.tolist() for name, count in counts.items()},
        "config_mean": mean,
        "config_std": std,
        "train_mean": (found.mean / 255).tolist(),
        "train_std": (found.std / 255).tolist(),
    }
    return summary, figures


def draw_spaces(
    dataset: data.Dataset, run_folder: str | None
) -> tuple[dict[str, Any], Figure]:
    """Distances of classes in pixels, in a run's features, and in their t-SNE planes.

    Returns:
      Of each space, such as "raw pixels" and "t-SNE plane of raw pixels": within,
      between, num_examples (see `distances.ClassDistances`) and ratio, None where there
      is no such pair; and a figure of the planes. Distances in a plane are in t-SNE's
      own unit, which changes with the number of images: only planes of equally many
      images can be compared.
    """
    raw = dataset.images.reshape(len(dataset), -1).astype(np.float32) / 255
    spaces = {"raw pixels": raw}
    if run_folder:
        spaces["features"] = pooled_features(load_run(run_folder), dataset.images)
    summary, coordinates = {}, {}
    for name, features in spaces.items():
        plane = embed(features)
        own, drawn = (
            distances.class_distances(places, dataset.labels)
            for places in (features, plane)
        )
        summary[name] = _describe_distances(own)
        summary[f"t-SNE plane of {name}"] = _describe_distances(drawn)
        caption = f"{name}: {_caption(own)}\nt-SNE plane: {_caption(drawn)}"
        coordinates[caption] = plane
    return summary, embedding.class_scatter(
        coordinates,
        dataset.labels,
        dataset.class_names,
        title="t-SNE, and mean distance between / within classes",
    )


def _describe_distances(apart: distances.ClassDistances) -> dict[str, Any]:
    numbers = vars(apart) | {"ratio": apart.ratio}
    # JSON has no NaN, which stands for "no such pair".
    return {k: v if math.isfinite(v) else None for k, v in numbers.items()}


def _caption(apart: distances.ClassDistances) -> str:
    return f"{apart.between:.4g} / {apart.within:.4g} = {apart.ratio:.2f}"


def explore(
    config: ConfigDict, *, run_folder: str | None, tsne_images: int
) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Numbers, and figures by file name, of a config's data.

    Args:
      config: complete settings.
      run_folder: of a run on such images, for its features, or None.
      tsne_images: how many images of the test split are placed, at most.
    """
    splits = data.load(config.data)
    train, test = splits["train"], splits["test"]
    rng = np.random.default_rng(0)
    summary, figures = draw_data(config, splits, rng)
    shown = rng.permutation(len(train))[:8]
    figures["augmentation"] = images.augmentations(
        train.images[shown],
        augmented_views(config, train, shown),
        title=describe_augmentation(config, len(train)),
    )
    sample = test.select(np.sort(rng.permutation(len(test))[:tsne_images]))
    summary["distances"], figures["tsne"] = draw_spaces(sample, run_folder)
    summary["duplicates"], pairs = compare_splits(splits)
    return summary, figures | pairs
