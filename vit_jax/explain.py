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

from vit_jax.analysis import evaluate, run_data
from vit_jax.analysis.architecture import draw_architecture
from vit_jax.analysis.explain import SHOWN_IMAGES, explain
from vit_jax.analysis.run_data import MAX_IMAGES, read_split
from vit_jax.errors import UserError
from vit_jax.figures import style
from vit_jax.interpret import attention, inputs
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run


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


def _make_parser() -> argparse.ArgumentParser:
    parser = make_parser("vit_jax.explain", __doc__, run_data.DATA_EPILOG)
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
    run = load_run(options.workdir, options.checkpoint)
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
