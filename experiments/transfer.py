"""What helps a small ViT that has few images: transfer, a teacher, or masked images.

python -m experiments.transfer --data=DIR --data100=DIR --out=DIR [--seeds=3]

Every arm trains the ViT of configs/vit_small_data.py on the same 2,000 CIFAR-10 images
of each class, chooses its epoch on 500 others, and scores the test split once:

scratch        nothing else
cifar100       starts from a training on CIFAR-100, in two stages
distilled      learns from a ResNet that was trained on the same subset
masked         starts from masked autoencoding of all training images, without labels

The three helpers (the training on CIFAR-100, the ResNet, the autoencoder) are trained
once, and the arms with each seed. OUT gets table.md, results.json, accuracy.png and
transfer.tar.gz. The p-values are McNemar's, of the arms' predictions with the same
seed against those from scratch. Exit status: 0 all done, 1 a run failed, 75 runs are
left (the same command goes on).
"""

from collections.abc import Sequence

from experiments.launching.jobs import Jobs
from experiments.launching.options import add_arguments, parse
from experiments.launching.study import run_study
from experiments.transferring.arms import make_jobs
from experiments.transferring.table import write_tables
from vit_jax.parallel.commands import make_parser, run_command


def main(arguments: Sequence[str]) -> int:
    """Trains what is not finished and writes the table."""
    parser = make_parser(
        "experiments.transfer", __doc__, "--config.group.name=value changes every run."
    )
    add_arguments(parser, out="runs/transfer")
    parser.add_argument(
        "--data100", metavar="DIR", help="official CIFAR-100 files; else TFDS"
    )
    options = parse(parser, arguments)
    jobs = Jobs(options.out, parallel=options.parallel)
    helpers, arms = make_jobs(jobs, options, options.settings)
    return run_study(
        "transfer",
        jobs,
        [*helpers.values(), *arms],
        options,
        needs={job: helpers[arm] for job, (arm, _) in arms.items() if arm in helpers},
        write=lambda: write_tables(jobs, helpers, arms),
    )


if __name__ == "__main__":
    run_command(main)
