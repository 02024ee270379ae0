"""Shows the data of a config: their statistics, and what training makes of them.

python -m vit_jax.explore --config=CONFIG --out=DIR [--run=RUN] [--config.x=y ...]

Writes figures and summary.json to DIR. With a run, t-SNE shows its features, too.
"""

import functools
import pathlib
from collections.abc import Sequence

from vit_jax.analysis.explore import explore
from vit_jax.config import apply_overrides, check_config, load_config_file
from vit_jax.errors import UserError
from vit_jax.parallel.commands import SETTINGS_EPILOG, make_parser, run_command


def main(arguments: Sequence[str]) -> None:
    """Draws a config's data and prints their statistics."""
    parser = make_parser("vit_jax.explore", __doc__, SETTINGS_EPILOG)
    parser.add_argument(
        "--config", metavar="CONFIG[:VARIANT]", required=True, help="whose data"
    )
    parser.add_argument("--out", metavar="DIR", required=True, help="where to write")
    parser.add_argument("--run", help="folder of a run, for its features")
    parser.add_argument(
        "--tsne_images", type=int, default=1000, help="of the test split; 10 or more"
    )
    options, overrides = parser.parse_known_args(arguments)
    if options.tsne_images < 10:
        raise UserError(f"--tsne_images is {options.tsne_images}; give 10 or more.")
    config = load_config_file(options.config)
    config = apply_overrides(config, overrides, [f"--{name}" for name in vars(options)])
    check_config(config)
    explore(
        config,
        pathlib.Path(options.out),
        run_folder=options.run,
        tsne_images=options.tsne_images,
    )


run = functools.partial(run_command, main)

if __name__ == "__main__":
    run()
