"""Classifies image files with a trained model.

python -m vit_jax.predict --workdir=RUN FILE... [--json] [--figures=DIR]

A FILE is an image of any size or a folder of images. What is no image is named and
skipped; the exit status is then 1. A figure shows the image as it is, the heat map of
what the model looks at, and the map over the image. Probabilities are calibrated if
`evaluate --report` has fitted a temperature to this checkpoint.
"""

import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from vit_jax.analysis.predict import predict_files
from vit_jax.errors import UserError
from vit_jax.interpret import inputs
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.runs.disks import make_folder
from vit_jax.runs.load import load_run


def _print(found: dict[str, Any]) -> None:
    print(f"{found['file']}\n  {found['sentence']}")
    width = max(len(one["class"]) for one in found["top"])
    for one in found["top"]:
        bar = "█" * round(30 * one["probability"])
        print(f"  {one['class']:<{width}}  {one['probability']:6.1%}  {bar}")


def main(arguments: Sequence[str]) -> int:
    """Prints the likeliest classes of each file; 1 if a file was skipped."""
    parser = make_parser("vit_jax.predict", __doc__)
    parser.add_argument("files", metavar="FILE", nargs="*", help="image or folder")
    parser.add_argument("--workdir", help="the run's folder")
    parser.add_argument("--checkpoint", default="best", help="best, latest or a step")
    parser.add_argument("--json", action="store_true", help="print one object a line")
    parser.add_argument(
        "--figures", metavar="DIR", type=pathlib.Path, help="draw each prediction"
    )
    options = parser.parse_intermixed_args(arguments)
    if not options.workdir or not options.files:
        missing = "FILE" if options.workdir else "--workdir"
        raise UserError(
            f"{missing} is missing; a full command is python -m vit_jax.predict "
            "--workdir=runs/vit photo.jpg."
        )
    run = load_run(options.workdir, options.checkpoint)
    wanted = inputs.find_images(options.files)
    files, images = inputs.read_images(wanted, run.image_shape)
    if options.figures is not None:
        make_folder(options.figures, "--figures")
    for found in predict_files(run, files, images, options.figures):
        print(json.dumps(found)) if options.json else _print(found)
    return int(len(files) < len(wanted))


run = functools.partial(run_command, main)


if __name__ == "__main__":
    run()
