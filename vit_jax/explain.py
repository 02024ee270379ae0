"""Shows what a trained model looks at, and how far each picture of that can be trusted.

python -m vit_jax.explain --workdir=RUN [FILE... | --indices=1,2,3]

The explained class is the predicted one. All images are scored, and the first few are
shown. Figures go to RUN/figures, faithfulness scores to RUN/explain.json: those of a
finished run's best checkpoint on the test split. All others go into
RUN/reports/SPLIT-STEP, and those of FILEs into RUN/reports/files-STEP.

python -m vit_jax.explain --architecture --config=FILE.py[:VARIANT] [--figures=DIR]
python -m vit_jax.explain --architecture --workdir=RUN [--figures=DIR]

draws the network that a config describes, with the shapes and parameters of its parts,
as architecture*.png and .pdf. It needs neither data nor training.
"""

import argparse
import functools
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import UInt8
from ml_collections import ConfigDict

from vit_jax import data, evaluate, models, runs
from vit_jax.commands import make_parser, run_command
from vit_jax.config import (
    apply_overrides,
    check_config,
    load_config_file,
    make_config,
)
from vit_jax.disks import make_folder
from vit_jax.errors import UserError
from vit_jax.explanation import SHOWN_IMAGES, explain
from vit_jax.figures import architecture as architecture_figures
from vit_jax.figures import style
from vit_jax.folder import RunFolder
from vit_jax.interpret import architecture, attention, inputs

# Of the images whose attention is held at once.
MAX_IMAGES = 64


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


def read_split(
    run: runs.Run,
    split: str = "test",
    indices: str | None = None,
    overrides: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> tuple[list[str], UInt8[np.ndarray, "n height width channels"]]:
    """(captions, images) of a split; see `evaluate.load_splits` for the last two.

    Args:
      indices: in the split, "0,1,2" for example; None: the first `MAX_IMAGES`.

    Raises:
      UserError: no such split or image, or data that cannot be read.
    """
    _, splits = evaluate.load_splits(run, overrides, flags)
    dataset = evaluate.choose_split(splits, split)
    first = ",".join(map(str, range(min(MAX_IMAGES, len(dataset)))))
    texts = (first if indices is None else indices).split(",")
    numbers = [int(text) if text.strip().isdecimal() else -1 for text in texts]
    for text, number in zip(texts, numbers, strict=True):
        if not 0 <= number < len(dataset):
            raise UserError(
                f'--indices has "{text}", but the {split} split has the images 0 to '
                f"{len(dataset) - 1}; write for example --indices=0,1,2."
            )
    chosen = dataset.select(np.array(numbers))
    return [dataset.class_names[label] for label in chosen.labels], chosen.images


def choose_network(
    options: argparse.Namespace, overrides: Sequence[str], flags: Sequence[str]
) -> tuple[str, ConfigDict, tuple[int, int, int], int]:
    """(name, config, image shape, number of classes) of what the options name.

    Raises:
      UserError: not one of both, settings that are refused, or data that alone tell
        what a model takes.
    """
    if bool(options.config) == bool(options.workdir) or options.files:
        raise UserError(
            "--architecture draws one network and no images; give either --config or "
            "--workdir, and no FILE."
        )
    if options.workdir:
        folder = RunFolder(options.workdir)
        config = make_config(folder.read("config"))
        apply_overrides(config, overrides, flags)
        if overrides:
            raise UserError(
                f"{overrides[0]} would change the network that was trained in "
                f"{folder.path.name}; leave it out, or give --config for --workdir."
            )
        dataset = folder.read("dataset")
        image_shape = tuple(dataset["image_shape"])
        return folder.path.name, config, image_shape, len(dataset["class_names"])
    path, _, variant = options.config.partition(":")
    name = "_".join(filter(None, (pathlib.Path(path).stem, variant)))
    config = apply_overrides(load_config_file(options.config), overrides, flags)
    check_config(config)
    known = data.known_shape(config.data)
    if known is None:
        raise UserError(
            f"With config.data.source={config.data.source} and config.data.name="
            f"{config.data.name}, only the data tell the shape of an image and the "
            "number of classes; start to train with this config, then give "
            "--workdir=RUN in place of --config."
        )
    return name, config, *known


def draw_architecture(
    options: argparse.Namespace, overrides: Sequence[str], flags: Sequence[str]
) -> None:
    """Draws the network of a config, or of a run, and prints where the files are."""
    name, config, image_shape, num_classes = choose_network(options, overrides, flags)
    # Shapes do not depend on the type of the numbers.
    model = models.make_model(
        config.model, num_classes=num_classes, image_shape=image_shape, dtype="float32"
    )
    described = architecture.describe_architecture(model, image_shape)
    num_params = sum(part.num_params for part in described.parts)
    gflops = 2e-9 * models.count_macs(model, image_shape)
    figure = architecture_figures.architecture(
        described,
        title=f"{name}: {num_params:,} parameters, {gflops:.3g} GFLOPs per image",
    )
    stem = "architecture" if options.workdir else f"architecture_{name}"
    default = RunFolder(options.workdir).figures if options.workdir else pathlib.Path()
    folder = options.figures or default
    make_folder(folder, "--figures")
    for suffix in ("png", "pdf"):
        print(style.save(figure, folder / f"{stem}.{suffix}"))


def _make_parser() -> argparse.ArgumentParser:
    parser = make_parser("vit_jax.explain", __doc__, evaluate.DATA_EPILOG)
    parser.add_argument("files", metavar="FILE", nargs="*", help="image or folder")
    parser.add_argument("--workdir", help="the run's folder")
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
    parser.add_argument(
        "--architecture", action="store_true", help="draw the network, see above"
    )
    parser.add_argument(
        "--config", metavar="FILE.py[:VARIANT]", help="whose network; or --workdir"
    )
    parser.add_argument(
        "--figures",
        metavar="DIR",
        type=pathlib.Path,
        help="for the network; or RUN/figures, or the current folder",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Draws, scores and prints; 1 if a file was skipped."""
    options, overrides = _make_parser().parse_known_intermixed_args(arguments)
    flags = [f"--{name}" for name in vars(options)]
    if options.architecture:
        draw_architecture(options, overrides, flags)
        return 0
    if not options.workdir or options.config or options.figures:
        raise UserError(
            "Explaining a trained model needs --workdir=RUN and takes neither --config "
            "nor --figures, which belong to --architecture."
        )
    if not 0 <= options.discard_ratio < 1:
        raise UserError(
            f"--discard_ratio is {options.discard_ratio:g}, but must be at least 0 and "
            "below 1."
        )
    run = runs.load_run(options.workdir, options.checkpoint)
    wanted = inputs.find_images(options.files)
    if wanted:
        files, images = inputs.read_images(wanted, run.image_shape)
        captions = [style.shorten(file.name, 22) for file in files]
        pictures = [inputs.read_photo(file) for file in files[:SHOWN_IMAGES]]
    else:
        captions, images = read_split(
            run, options.split, options.indices, overrides, flags
        )
        pictures = None
    if not 0 < len(images) <= MAX_IMAGES:
        raise UserError(
            f"There are {len(images)} images to explain; give 1 to {MAX_IMAGES}."
        )
    split = "files" if wanted else options.split
    folder = RunFolder(evaluate.report_folder(RunFolder(run.workdir), run.step, split))
    folder.create()
    scores, figures = explain(
        run,
        images,
        captions,
        pictures,
        block=options.block,
        head=options.head,
        head_fusion=options.head_fusion,
        discard_ratio=options.discard_ratio,
    )
    for name, figure in figures.items():
        print(style.save(figure, folder.figures / f"{name}.png"))
    folder.write(
        "explain",
        {"step": run.step, "num_images": len(images), "faithfulness": scores},
    )
    print_scores(scores, len(images))
    return int(len(images) < len(wanted))


run = functools.partial(run_command, main)

if __name__ == "__main__":
    run()
