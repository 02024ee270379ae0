"""Shows the data of a config: what is in them, and what training makes of them.

python -m vit_jax.explore --config=CONFIG --out=DIR [--run=RUN] [--config.x=y ...]

Writes figures and summary.json to DIR. With a run, t-SNE shows its features, too.
"""

import argparse
import functools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax.analysis.explore import explore
from vit_jax.config import apply_overrides, check_config, load_config_file
from vit_jax.errors import UserError
from vit_jax.figures import style
from vit_jax.parallel.commands import SETTINGS_EPILOG, make_parser, run_command
from vit_jax.runs.disks import make_folder


def print_summary(summary: Mapping[str, Any]) -> None:
    """The numbers, for a person."""
    for name, counts in summary["class_counts"].items():
        print(
            f"{name}: {sum(counts):,} images, {min(counts):,} to {max(counts):,} of "
            f"each of {len(counts)} classes"
        )
    for part in ("mean", "std"):
        used, own = (
            ", ".join(f"{x:.4f}" for x in summary[f"{source}_{part}"])
            for source in ("config", "train")
        )
        print(f"{part} of each channel: {used} in the config, {own} in the data")
    for name, one in summary["distances"].items():
        if one["ratio"] is not None:
            print(
                f"distance in {name}: {one['within']:.4g} within classes, "
                f"{one['between']:.4g} between, ratio {one['ratio']:.3f}"
            )
    for name, one in summary["duplicates"].items():
        print(f"images of {name}: {one['exact']} exactly, {one['near']} nearly")


def _make_parser() -> argparse.ArgumentParser:
    parser = make_parser("vit_jax.explore", __doc__, SETTINGS_EPILOG)
    parser.add_argument(
        "--config", metavar="CONFIG[:VARIANT]", required=True, help="whose data"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=pathlib.Path, required=True, help="where to write"
    )
    parser.add_argument("--run", help="folder of a run, for its features")
    parser.add_argument(
        "--tsne_images", type=int, default=1000, help="of the test split; 10 or more"
    )
    return parser


def main(arguments: Sequence[str]) -> None:
    """Draws and prints what a config's data hold."""
    options, overrides = _make_parser().parse_known_args(arguments)
    if options.tsne_images < 10:
        raise UserError(f"--tsne_images is {options.tsne_images}; give 10 or more.")
    config = load_config_file(options.config)
    config = apply_overrides(config, overrides, [f"--{name}" for name in vars(options)])
    check_config(config)
    make_folder(options.out, "--out")
    summary, figures = explore(
        config, run_folder=options.run, tsne_images=options.tsne_images
    )
    for name, figure in figures.items():
        print(style.save(figure, options.out / f"{name}.png"))
    text = json.dumps(summary, indent=2) + "\n"
    (options.out / "summary.json").write_text(text, encoding="utf-8")
    print_summary(summary)


run = functools.partial(run_command, main)

if __name__ == "__main__":
    run()
