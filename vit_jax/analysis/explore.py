"""Statistics and figures of a config's data, and of what training makes of them."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from vit_jax import augment, data
from vit_jax.analysis.augmented import augmented_views, describe_augmentation
from vit_jax.analysis.run_data import load_splits
from vit_jax.config import apply_overrides, check_config, load_config_file
from vit_jax.config.command_line import moved_settings
from vit_jax.errors import UserError
from vit_jax.figures import embedding, images, per_class, style
from vit_jax.files import as_json, make_folder, user_path, write_file
from vit_jax.metrics import distances, duplicates
from vit_jax.runs.load import load_selected
from vit_jax.runs.run import Run, fill_model_settings
from vit_jax.runs.user_code import add_user_code

Splits = Mapping[str, data.Dataset]

_SPLITS = ("train", "val", "test", "subset_test")
# The names of all figures that there may be.
_FIGURES = {
    "augmentation",
    "channel_histograms",
    "class_counts",
    "class_patches",
    "class_samples",
    "patches",
    "tsne",
    *(f"duplicates_{a}_{b}" for a in _SPLITS for b in _SPLITS),
}
# Limits on the columns and cells of a figure that remain legible.
_MAX_SAMPLES = 10
_SHOWN_PAIRS = 16


def class_samples(
    dataset: data.Dataset, rng: np.random.Generator
) -> tuple[UInt8[np.ndarray, "k samples h w c"], list[str], str]:
    """Random images of the first classes, equally many of each; the names of these
    classes, and which they are, such as "each class"."""
    counts = dataset.count_classes()
    present, most = np.flatnonzero(counts), style.MAX_CLASSES
    shown, which = present[:most], "each class"
    if len(present) > most:
        which = f"each of the first {most} of {len(present)} classes"
    num_samples = min(_MAX_SAMPLES, int(counts[shown].min()))
    drawn = [
        rng.choice(np.flatnonzero(dataset.labels == label), num_samples, replace=False)
        for label in shown
    ]
    names = [dataset.class_names[i] for i in shown]
    return dataset.images[np.stack(drawn)], names, which


def compare_splits(
    splits: Splits,
) -> tuple[dict[str, dict[str, int]], dict[str, Figure]]:
    """Numbers of images with an exact and a near duplicate in another split.

    Returns:
      Of each pair of splits, such as "test in train", the number of images of the
      first; and a figure of the most similar pairs that are not equal.
    """
    names, counts, figures = list(splits), {}, {}
    small = {name: duplicates.thumbnails(one.images) for name, one in splits.items()}
    for i, name in enumerate(names):
        for other in names[:i]:
            ours, theirs = splits[name].images, splits[other].images
            exact = duplicates.exact_duplicates(ours, theirs)
            near, correlation = duplicates.near_duplicates(small[name], small[other])
            unequal = ~np.isin(near[:, 0], exact)
            near, correlation = near[unequal], correlation[unequal]
            counts[f"{name} in {other}"] = {"exact": len(exact), "near": len(near)}
            if len(near):
                shown = near[:_SHOWN_PAIRS]
                figures[f"duplicates_{name}_{other}"] = images.pairs(
                    ours[shown[:, 0]],
                    theirs[shown[:, 1]],
                    [
                        f"{name} {a} | {other} {b}, r = {r:.3f}"
                        for (a, b), r in zip(shown, correlation, strict=False)
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
    found = data.pixel_statistics(train.images)
    counts = {name: split.count_classes() for name, split in splits.items()}
    first = train.images[rng.integers(len(train))]
    used = "mean {}, std {}".format(
        *(", ".join(f"{255 * x:.1f}" for x in part) for part in (mean, std))
    )
    samples, names, which = class_samples(train, rng)
    figures = {
        "class_samples": images.class_samples(samples, names, which),
        "class_counts": per_class.grouped_bars(
            {f"{name} ({count.sum():,})": count for name, count in counts.items()},
            train.class_names,
            by=("number of training images", counts["train"]),
            title="Images of each class",
            unit="images",
        ),
        "channel_histograms": images.channel_histograms(
            found.counts, found.mean, found.std, title=f"Pixel values\nconfig: {used}"
        ),
    }
    complete = config.copy_and_resolve_references()
    fill_model_settings(complete)
    if patch_size := complete.model.patch_size:
        # An image of all, and one of each class, in the size that a model sees.
        shown = np.concatenate([first[None], samples[:, 0]])
        shown = augment.resize(jnp.asarray(shown, jnp.float32), config.data.resize)
        shown = np.asarray(jnp.clip(jnp.round(shown), 0, 255), np.uint8)
        side = min(patch_size, *shown.shape[1:3])
        figures["patches"] = images.image_and_patches(shown[0], side)
        figures["class_patches"] = images.class_patches(shown[1:], names, side, which)
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
    dataset: data.Dataset, run: Run | None
) -> tuple[dict[str, Any], Figure]:
    """Distances of classes in pixels, in a run's features, and in their t-SNE planes.

    Returns:
      Of each space, such as "raw pixels" and "t-SNE plane of raw pixels", what
      `distances.class_distances` returns, None where there is no such pair; and a
      figure of the planes. Distances in a plane are in t-SNE's own unit, which depends
      on the number of images, so only planes of equally many images can be compared.
    """
    raw = dataset.images.reshape(len(dataset), -1).astype(np.float32) / 255
    spaces = {"raw pixels": raw}
    if run is not None and run.has_features:
        spaces["features"] = run.features(dataset.images)
        if not np.isfinite(spaces["features"]).all():
            raise UserError(
                f"Features of the model of step {run.step:,} in {run.workdir} are not "
                "finite; give another run, or leave out --run."
            )
    elif run is not None:
        print(f"{run.config.model.name} does not store its features: pixels only")
    summary, coordinates = {}, {}
    for name, features in spaces.items():
        plane = distances.embed(features)
        own, drawn = (
            distances.class_distances(places, dataset.labels)
            for places in (features, plane)
        )
        summary[name] = own
        summary[f"t-SNE plane of {name}"] = drawn
        caption = f"{name}: {_caption(own)}\nt-SNE plane: {_caption(drawn)}"
        coordinates[caption] = plane
    # JSON has no NaN, which stands for "no such pair".
    return as_json(summary), embedding.class_scatter(
        coordinates,
        dataset.labels,
        dataset.class_names,
        title="t-SNE, and mean distance between / within classes",
    )


def _caption(apart: Mapping[str, float]) -> str:
    return "{between:.4g} / {within:.4g} = {ratio:.2f}".format(**apart)


def load_data(
    options: argparse.Namespace, unknown: Sequence[str]
) -> tuple[ConfigDict, dict[str, data.Dataset], Run | None]:
    """(settings, data, run) of the config or the run that the options name.

    Args:
      options: the flags of the command, with either `config` or `run`.
      unknown: its other arguments; with a config they are settings.

    Raises:
      UserError: a setting is refused, or the data or the run cannot be read.
    """
    if options.run:
        moved = moved_settings(options, unknown)
        run, splits = load_splits(load_selected(options.run)[0], moved)
        return run.config, splits, run
    moved = moved_settings(options, ())
    if "eval_batch_size" in moved:
        raise UserError(
            "--eval_batch_size is for the features of a run's model, but --config "
            "names none; leave it out, or give --run."
        )
    overrides = [f"--config.{key}={value}" for key, value in moved.items()]
    flags = [f"--{name}" for name in vars(options)]
    config = load_config_file(options.config)
    config = apply_overrides(config, [*unknown, *overrides], flags)
    check_config(config)
    add_user_code(config.code)
    return config, data.load(config.data), None


def explore(options: argparse.Namespace, unknown: Sequence[str]) -> None:
    """Writes figures and summary.json of some data, and prints the summary.

    For `unknown` see `load_data`.

    Raises:
      UserError: as `load_data`, or the folder cannot be written to.
    """
    config, splits, run = load_data(options, unknown)
    out = user_path(options.out)
    # After the data, so that a mistake in them leaves no folder behind.
    make_folder(out, "--out")
    train, test = splits["train"], splits["test"]
    splits = data.named_splits(splits)
    # They are computed once, because that takes a while for images in a file.
    config.data.mean, config.data.std = data.normalization(config.data, train)
    rng = np.random.default_rng(0)
    summary, figures = draw_data(config, splits, rng)
    shown = rng.permutation(len(train))[:8]
    if not config.linear_probe:  # which sees the images as they are
        views, captions = augmented_views(config, train, shown)
        figures["augmentation"] = images.augmentations(
            train.images[shown],
            views,
            names=[train.class_names[label] for label in train.labels[shown]],
            captions=captions,
            title=describe_augmentation(config, len(train)),
        )
    sample = test.select(np.sort(rng.permutation(len(test))[: options.tsne_images]))
    summary["distances"] = {}
    if len(sample) > 1:
        summary["distances"], figures["tsne"] = draw_spaces(sample, run)
    summary["duplicates"], pairs = compare_splits(splits)
    figures |= pairs
    for path in out.glob("*.png"):
        # It is of an earlier call, and this one does not replace it.
        if path.stem in _FIGURES and path.stem not in figures:
            path.unlink()
    for name, figure in figures.items():
        print(style.save(figure, out / f"{name}.png"))
    text = json.dumps(summary, indent=2) + "\n"
    write_file(out / "summary.json", text)
    print(to_text(summary))


def to_text(summary: Mapping[str, Any]) -> str:
    """The numbers of a summary in lines for a terminal."""
    lines = [
        f"{name}: {sum(counts):,} images, {min(counts):,} to {max(counts):,} of "
        f"each of {len(counts)} classes"
        for name, counts in summary["class_counts"].items()
    ]
    for part in ("mean", "std"):
        used, own = (
            ", ".join(f"{x:.4f}" for x in summary[f"{source}_{part}"])
            for source in ("config", "train")
        )
        lines.append(f"{part} of each channel: {used} in the config, {own} in the data")
    lines += [
        f"distance in {name}: {one['within']:.4g} within classes, "
        f"{one['between']:.4g} between, ratio {one['ratio']:.3f}"
        for name, one in summary["distances"].items()
        if one["ratio"] is not None
    ]
    lines += [
        f"images of {name}: {one['exact']} exactly, {one['near']} nearly"
        for name, one in summary["duplicates"].items()
    ]
    return "\n".join(lines)
