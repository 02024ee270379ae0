"""Shows what a trained model looks at, and how far each picture of that can be trusted.

python -m vit_jax.explain --workdir=RUN [FILE... | --indices=1,2,3]

The explained class is the predicted one. All images are scored, and the first few are
drawn. Figures go to RUN/figures and faithfulness scores to RUN/explain.json if they are
of a finished run's best checkpoint on the test split. Those of any other go into
RUN/reports/SPLIT-STEP, and those of FILEs into RUN/reports/files-STEP.

python -m vit_jax.explain --architecture --config=FILE.py[:VARIANT] [--figures=DIR]
python -m vit_jax.explain --architecture --workdir=RUN [--figures=DIR]

draws the network that a config describes, with the shapes and parameters of its parts,
as architecture*.png and .pdf. It needs neither data nor training; settings of the
config are changed by --config.group.name=value.
"""

import functools
from collections.abc import Sequence

from vit_jax.config.command_line import add_data_flags, moved_settings
from vit_jax.errors import UserError
from vit_jax.parallel.commands import announce, make_parser, run_command

# Flag -> its options for argparse.
_FLAGS = {
    "workdir": {"help": "the run's folder"},
    "checkpoint": {"default": "best", "help": "best, latest or a step"},
    "indices": {"help": "such as 0,1,2 (default: 64 drawn at random)"},
    "split": {"default": "test", "help": "the split that the indices refer to"},
    "block": {"type": int, "help": "counted from 1 (default: the last)"},
    "head": {"type": int, "help": "counted from 1 (default: the mean of all)"},
    "head_fusion": {
        "choices": ("mean", "max", "min"),
        "default": "mean",
        "help": "how rollout joins the heads",
    },
    "discard_ratio": {"type": float, "default": 0.0, "help": "of rollout, below 1"},
    "architecture": {"action": "store_true", "help": "draw the network, see above"},
    "config": {"metavar": "FILE.py[:VARIANT]", "help": "whose network; or --workdir"},
    "figures": {
        "metavar": "DIR",
        "help": "for the network; or RUN/figures, or the current folder",
    },
}


def main(arguments: Sequence[str]) -> int:
    """Draws, scores and prints; returns 1 if a file was skipped."""
    parser = make_parser("vit_jax.explain", __doc__)
    parser.add_argument("files", metavar="FILE", nargs="*", help="image or folder")
    for name, flag in _FLAGS.items():
        parser.add_argument(f"--{name}", **flag)
    add_data_flags(parser)
    options, rest = parser.parse_known_intermixed_args(arguments)
    if options.architecture:
        # Imported late: JAX takes seconds to load, and mistakes are reported before.
        from vit_jax.analysis.architecture import draw_architecture

        usual = vars(parser.parse_known_intermixed_args([])[0])
        draw_architecture(options, rest, usual)
        return 0
    if not options.workdir or options.config or options.figures:
        raise UserError(
            "Explaining a trained model needs --workdir=RUN and takes neither --config "
            "nor --figures, which belong to --architecture."
        )
    moved = moved_settings(options, rest)
    announce(options.workdir)
    from vit_jax.analysis.explain import explain

    return explain(options, moved)


run = functools.partial(run_command, main)


if __name__ == "__main__":
    run()
