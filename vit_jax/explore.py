"""Shows images: their statistics, and what training makes of them.

python -m vit_jax.explore --config=CONFIG --out=DIR [--config.x=y ...]
python -m vit_jax.explore --run=RUN --out=DIR

Writes figures and summary.json to DIR, and removes figures that an earlier call wrote
there and this one does not write. With a run, data and settings are those that it
was trained with, and t-SNE shows its features, too.
"""

import functools
from collections.abc import Sequence

from vit_jax.config.command_line import add_data_flags
from vit_jax.errors import UserError
from vit_jax.parallel.commands import (
    SETTINGS_EPILOG,
    announce,
    make_parser,
    run_command,
)


def main(arguments: Sequence[str]) -> None:
    """Draws the data of a config or of a run and prints their statistics."""
    parser = make_parser("vit_jax.explore", __doc__, SETTINGS_EPILOG)
    parser.add_argument("--config", metavar="CONFIG[:VARIANT]", help="whose data")
    parser.add_argument(
        "--run", help="folder of a run, whose data; instead of --config"
    )
    parser.add_argument("--out", metavar="DIR", required=True, help="where to write")
    parser.add_argument(
        "--tsne_images",
        type=int,
        default=1000,
        help="test images that t-SNE shows; 10 or more",
    )
    add_data_flags(parser)
    options, unknown = parser.parse_known_args(arguments)
    if options.tsne_images < 10:
        raise UserError(f"--tsne_images is {options.tsne_images}; give 10 or more.")
    if bool(options.config) == bool(options.run):
        raise UserError(
            "explore shows the data of a config or of a run, with all its settings; "
            "give either --config=CONFIG or --run=RUN."
        )
    announce(options.run or options.config)
    # Imported late: JAX takes seconds to load, and mistakes are reported before.
    from vit_jax.analysis.explore import explore

    explore(options, unknown)


run = functools.partial(run_command, main)

if __name__ == "__main__":
    run()
