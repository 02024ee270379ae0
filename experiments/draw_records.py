"""Draws the README's two first pictures from the records of the runs that they show.

    python -m experiments.draw_records --out=DIR

The records are the folders of experiments/results. The accuracy is that of the images
held out, and the time is that of training alone.
"""

import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from vit_jax.figures import compare, style
from vit_jax.files import make_folder, user_path
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.records import evaluation_curve
from vit_jax.training.progress import say

RESULTS = pathlib.Path(__file__).parent / "results"
# Recipe -> its folder of seed 0; those of its other seeds end in _seed1, _seed2, ...
ON_A_CPU = {
    "ViT, six stem layers": "vit_laptop_hour_muon_plain",
    "small ResNet": "resnet_laptop_small_hour_muon_plain",
    "ViT, 30% of the time": "vit_laptop_quick_muon",
    "small ResNet, 30% of the time": "resnet_laptop_small_quick_muon",
}
ON_AN_H200 = {
    "ViT, six stem layers": "vit_cifar_fast_muon",
    "ResNet-18": "resnet_cifar_fast_muon",
    "ViT, half the time, AdamW for the stem": "vit_cifar_fast",
    "ResNet-18, half the time, SGD": "resnet_cifar_fast_5900_steps",
}


def folders(name: str) -> list[pathlib.Path]:
    """The records of a recipe, seed 0 first."""
    return [RESULTS / name, *sorted(RESULTS.glob(f"{name}_seed[0-9]*"))]


def curve(
    folder: pathlib.Path, clock: str, seconds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Time and accuracy, 0 to 1, of a run's evaluations, both [evaluations].

    Args:
      folder: of a run.
      clock: the field of metrics.jsonl that has the time, such as "cpu_seconds".
      seconds: in one unit of the time that is returned.
    """
    time, accuracy = evaluation_curve(RunFolder(folder).read_metrics(), clock)
    return time / seconds, accuracy


def _draw(recipes: dict[str, str], unit: str, clock: str, seconds: float) -> Figure:
    curves = {
        recipe: [curve(folder, clock, seconds) for folder in folders(name)]
        for recipe, name in recipes.items()
    }
    return compare.accuracy_over_time(curves, unit)


def main(arguments: Sequence[str]) -> int:
    """Writes both pictures."""
    parser = make_parser("experiments.draw_records", __doc__)
    parser.add_argument("--out", metavar="DIR", default="runs/figures")
    out = user_path(parser.parse_args(arguments).out)
    make_folder(out, "--out")
    cpu = _draw(ON_A_CPU, "CPU minutes", "cpu_seconds", 60)
    gpu = _draw(ON_AN_H200, "seconds on one NVIDIA H200", "seconds", 1)
    # The first evaluations, below this, would hide by how much the ends differ.
    gpu.axes[0].set_ylim(bottom=90)
    say(str(style.save(cpu, out / "vit_against_resnet.png")))
    say(str(style.save(gpu, out / "vit_against_resnet_h200.png")))
    return 0


if __name__ == "__main__":
    run_command(main)
