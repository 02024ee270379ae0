"""Shows what a trained model looks at, and how far each picture of that can be trusted.

python -m vit_jax.explain --workdir=RUN [FILE... | --indices=1,2,3]

Figures go to RUN/figures, faithfulness scores to RUN/explain.json. The explained class
is the predicted one. All images are scored, and the first few are shown.
"""

import argparse
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from vit_jax import evaluate, runs
from vit_jax.commands import run_command
from vit_jax.errors import UserError, did_you_mean
from vit_jax.figures import attention as attention_figures
from vit_jax.figures import embedding, style
from vit_jax.figures import feature_maps as feature_map_figures
from vit_jax.folder import RunFolder
from vit_jax.interpret import (
    attention,
    faithfulness,
    gradcam,
    inputs,
    relevance,
    weights,
)
from vit_jax.models import ViT

Maps = dict[str, Float[np.ndarray, "n rows columns"]]
Images = UInt8[np.ndarray, "n height width channels"]

# Of the rows in one figure, and of the images whose attention is held at once.
MAX_IMAGES = 64
_SHOWN_IMAGES = 8


def vit_maps(
    run: runs.Run,
    seen: attention.Attention,
    images: Images,
    classes: np.ndarray,
    options: argparse.Namespace,
) -> Maps:
    """Heat maps by name: attention of one block, rollout and relevance."""
    num_blocks, num_heads = seen.weights.shape[1:3]
    block = num_blocks if options.block is None else options.block
    for name, value, count in (
        ("block", block, num_blocks),
        ("head", 1 if options.head is None else options.head, num_heads),
    ):
        if not 1 <= value <= count:
            raise UserError(
                f"--{name} is {value}, but this model has {count}; give 1 to {count}."
            )
    of_block = seen.maps()[:, block - 1]
    name = f"attention, block {block}"
    if options.head is None:
        chosen = of_block.mean(axis=1)
    else:
        chosen, name = of_block[:, options.head - 1], f"{name}, head {options.head}"
    return {
        name: chosen,
        "rollout": attention.rollout_maps(
            seen,
            head_fusion=options.head_fusion,
            discard_ratio=options.discard_ratio,
        ),
        "relevance": relevance.relevance_maps(run, images, classes, seen),
    }


def print_scores(scores: Mapping[str, Mapping[str, float]], num_images: int) -> None:
    """A table of areas under the curves, and in brackets their excess over chance."""
    print(f"Faithfulness on {num_images} image(s): area under the curve (minus that of")
    print("random maps on the same images, ± standard error)")
    width = max(map(len, scores))
    print(f"  {'':<{width}}  {'deletion (low is good)':<25}  insertion (high is good)")
    for name, score in scores.items():
        cells = [f"{score[key]:.3f}" for key in ("deletion", "insertion")]
        if not name.startswith("random"):
            cells = [
                "{} ({:+.3f} ± {:.3f})".format(
                    cell,
                    score[f"{key}_minus_random"],
                    score[f"{key}_minus_random_error"],
                )
                for cell, key in zip(cells, ("deletion", "insertion"), strict=True)
            ]
        print(f"  {name:<{width}}  {cells[0]:<25}  {cells[1]}")


def explain_vit(
    run: runs.Run, images: Images, classes: np.ndarray, options: argparse.Namespace
) -> tuple[Maps, dict[str, Figure]]:
    """Heat maps, and the figures that only a ViT has, by file name."""
    seen = attention.read_attention(run, images)
    maps = vit_maps(run, seen, images, classes, options)
    figures = {
        "attention_by_head": attention_figures.by_block_and_head(
            images[0], seen.maps()[0]
        ),
        "attention_distance": attention_figures.mean_distances(
            attention.mean_distances(seen, run.model.patch_size),
            even=float(
                attention.patch_distances(seen.grid, run.model.patch_size).mean()
            ),
        ),
    }
    similarity = weights.position_similarity(run)
    if similarity is not None:
        figures["position_similarity"] = embedding.position_similarity(similarity)
    return maps, figures


def explain_resnet(
    run: runs.Run, images: Images, classes: np.ndarray
) -> tuple[Maps, dict[str, Figure]]:
    """Grad-CAM of the last two stages, and the figure of feature maps, by file name."""
    last = len(run.model.stage_sizes)
    maps = {
        f"Grad-CAM, stage {stage}": gradcam.grad_cam(run, images, classes, stage)
        for stage in range(max(1, last - 1), last + 1)
    }
    features = gradcam.feature_maps(run, images[:1])
    early = {name: features[name][0] for name in ("stem", "stage1", "stage2")}
    return maps, {"feature_maps": feature_map_figures.feature_maps(images[0], early)}


def explain(
    run: runs.Run,
    images: Images,
    captions: Sequence[str],
    options: argparse.Namespace,
) -> tuple[dict[str, dict[str, float]], dict[str, Figure]]:
    """Faithfulness of each kind of heat map, and all figures by file name."""
    probabilities = run.predict(images, calibrated=True)
    classes = probabilities.argmax(axis=1)
    if isinstance(run.model, ViT):
        maps, figures = explain_vit(run, images, classes, options)
    else:
        maps, figures = explain_resnet(run, images, classes)
    fill = (255 * np.array(run.config.data.mean)).round().astype(np.uint8)
    predict = functools.partial(run.predict, calibrated=True)
    curves, scores = faithfulness.compare(predict, images, maps, classes, fill)
    predicted = [
        f"→ {run.class_names[index]} {probability:.0%}"
        for index, probability in zip(classes, probabilities.max(axis=1), strict=True)
    ]
    shown = slice(0, _SHOWN_IMAGES)
    figures["heat_maps"] = attention_figures.overlays(
        images[shown],
        {name: values[shown] for name, values in maps.items()},
        [f"{a}\n{b}" for a, b in zip(captions, predicted, strict=True)][shown],
        title="What the model looks at",
    )
    figures["faithfulness"] = attention_figures.deletion_insertion(
        next(iter(curves.values())).share,
        {k: faithfulness.mean_and_error(one.deletion) for k, one in curves.items()},
        {k: faithfulness.mean_and_error(one.insertion) for k, one in curves.items()},
        title=f"Does the model use what the map marks? ({len(images)} images)",
    )
    figures["stem_filters"] = embedding.patch_filters(
        weights.stem_filters(run),
        title="Principal components of the first layer's filters",
    )
    return scores, figures


def read_split(
    run: runs.Run, options: argparse.Namespace, overrides: Sequence[str]
) -> tuple[list[str], Images]:
    """(captions, images) of `--indices` of `--split`."""
    flags = [f"--{name}" for name in vars(options)]
    _, splits = evaluate.load_splits(run, overrides, flags)
    if options.split not in splits:
        raise UserError(
            f"There is no split {options.split}{did_you_mean(options.split, splits)}; "
            f"this run has {', '.join(splits)}."
        )
    split = splits[options.split]
    first = ",".join(map(str, range(min(MAX_IMAGES, len(split)))))
    texts = (first if options.indices is None else options.indices).split(",")
    numbers = [int(text) if text.strip().isdecimal() else -1 for text in texts]
    for text, number in zip(texts, numbers, strict=True):
        if not 0 <= number < len(split):
            raise UserError(
                f'--indices has "{text}", but the {options.split} split has the '
                f"images 0 to {len(split) - 1}; write for example --indices=0,1,2."
            )
    chosen = split.select(np.array(numbers))
    return [split.class_names[label] for label in chosen.labels], chosen.images


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_jax.explain",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Settings of data.* may be given as for main, for example "
        "--config.data.dir=DIR on another machine.",
        allow_abbrev=False,
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help="image or folder")
    parser.add_argument("--workdir", required=True, help="the run's folder")
    parser.add_argument("--checkpoint", default="best", help="best, latest or a step")
    parser.add_argument(
        "--indices", help=f"of the split, 0,1,2 for example; or the first {MAX_IMAGES}"
    )
    parser.add_argument("--split", default="test", help="that indices count in")
    parser.add_argument("--block", type=int, help="from 1; or the last")
    parser.add_argument("--head", type=int, help="from 1; or the mean of all")
    parser.add_argument(
        "--head_fusion", choices=attention.HEAD_FUSIONS, default="mean", help="rollout"
    )
    parser.add_argument(
        "--discard_ratio", type=float, default=0.0, help="rollout: 0 to below 1"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Draws, scores and prints; 1 if a file was skipped."""
    options, overrides = make_parser().parse_known_intermixed_args(arguments)
    if not 0 <= options.discard_ratio < 1:
        raise UserError(
            f"--discard_ratio is {options.discard_ratio:g}, but must be at least 0 and "
            "below 1."
        )
    run = runs.load_run(options.workdir, options.checkpoint)
    wanted = inputs.find_images(options.files)
    if wanted:
        files, images = inputs.read_images(wanted, run.image_shape)
        captions = [file.name for file in files]
    else:
        captions, images = read_split(run, options, overrides)
    if not 0 < len(images) <= MAX_IMAGES:
        raise UserError(
            f"There are {len(images)} images to explain; give 1 to {MAX_IMAGES}."
        )
    scores, figures = explain(run, images, captions, options)
    folder = RunFolder(run.workdir)
    for name, figure in figures.items():
        print(style.save(figure, folder.figures / f"{name}.png"))
    folder.write(
        "explain",
        {"step": run.step, "num_images": len(images), "faithfulness": scores},
    )
    print_scores(scores, len(images))
    return int(len(images) < len(wanted))


if __name__ == "__main__":
    run_command(main)
