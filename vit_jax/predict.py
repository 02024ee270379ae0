"""Classifies image files with a trained model.

python -m vit_jax.predict --workdir=RUN FILE... [--json] [--figures=DIR]

A FILE is an image of any size or a folder of images. A file that is no image is named
and skipped; the exit status is then 1. A figure shows the image, the heat map of what
the model looks at, and the map over the image. Probabilities are calibrated if
`evaluate --report` has fitted a temperature to this checkpoint.
"""

import functools
from collections.abc import Sequence

from vit_jax.errors import UserError
from vit_jax.files import user_path
from vit_jax.parallel.commands import announce, make_parser, run_command


def main(arguments: Sequence[str]) -> int:
    """Prints the most probable classes; returns 1 if a file was skipped."""
    parser = make_parser("vit_jax.predict", __doc__)
    parser.add_argument("files", metavar="FILE", nargs="*", help="image or folder")
    parser.add_argument("--workdir", help="the run's folder")
    parser.add_argument("--checkpoint", default="best", help="best, latest or a step")
    parser.add_argument("--json", action="store_true", help="print one object a line")
    parser.add_argument(
        "--figures", metavar="DIR", type=user_path, help="draw each prediction"
    )
    options = parser.parse_intermixed_args(arguments)
    if not options.workdir or not options.files:
        missing = "FILE" if options.workdir else "--workdir"
        raise UserError(
            f"{missing} is missing; a full command is python -m vit_jax.predict "
            "--workdir=runs/vit photo.jpg."
        )
    announce(options.workdir)
    # Imported late: JAX takes seconds to load, and mistakes are reported before.
    from vit_jax.analysis.predict import predict

    return predict(options)


run = functools.partial(run_command, main)


if __name__ == "__main__":
    run()
