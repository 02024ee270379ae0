"""Compares single changes of a config, called arms, on the images held out.

python -m experiments.search --study=flagship --data=DIR --epochs=40 --seeds=1
python -m experiments.search --study=flagship --data=DIR --arms=base,adamw --seeds=3
python -m experiments.search --study=flagship --data=DIR --final --seeds=5

Each arm and seed is a run of `vit_jax.main`, which scores the test split at its end.
But this command neither reads nor shows those scores before --final: it ranks the arms
by their best accuracy on the hold-out (the images held out), which is in metrics.jsonl.
Studies of the shortest training rank by the seconds until 94% is reached there.

--final trains the study's config as it stands, and its rivals, and reports the test
scores, once. Where the study asks for equal time, a rival trains for as many epochs as
fit into the seconds that seed 0 of the config took, by its own measured speed, or all
of them for the --config.time_budget that is given.

Runs are added to RECORD.json, from which RECORD.md is written again each time. Only
"learned" in the JSON, a sentence for each arm, is meant to be edited by hand.
"""

import argparse
import pathlib
import shlex
from collections.abc import Sequence

from experiments.launching.jobs import Job, Jobs
from experiments.launching.options import (
    LENGTHS,
    add_arguments,
    choose,
    data_settings,
    json_path,
    parse,
    positive_float,
    refuse_data_of_digits,
    report_left,
)
from experiments.launching.summary import describe_job
from experiments.searching.arms import STUDIES, Study
from experiments.searching.final import (
    Search,
    compare_final,
    plan_final,
    report_final,
    train_final,
)
from experiments.searching.record import (
    read_record,
    require_same_base,
    require_same_configs,
    require_same_rows,
    write_record,
)
from vit_jax.config import load_config_file
from vit_jax.errors import UserError
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.training.progress import say

RESULTS = pathlib.Path(__file__).parent / "results"


def _choose_arms(study: Study, options: argparse.Namespace) -> list[str]:
    if options.final:
        return ["base"]
    arms = choose(options.arms, study.arms, study.arms, "arm")
    given = [k for k in LENGTHS if options.settings.get(k, "None") != "None"]
    lengths = [f"--config.{key}" for key in given]
    lengths += ["--epochs"] if options.epochs else []
    if not lengths:
        return arms
    if len(lengths) > 1:
        raise UserError(f"{' and '.join(lengths)} each give a length; leave one out.")
    of_a_length = [arm for arm in arms if "num_epochs" in study.arms[arm][1]]
    if of_a_length and options.arms:
        raise UserError(
            f"{lengths[0]} gives every arm one length, but {', '.join(of_a_length)} is "
            "about the length; leave out one of the two."
        )
    if of_a_length:
        say(f"# left out, since {lengths[0]} is given: {', '.join(of_a_length)}")
    return [arm for arm in arms if arm not in of_a_length]


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser(
        "experiments.search", __doc__, "--config.group.name=value changes every run."
    )
    add_arguments(parser, out="runs/search")
    parser.add_argument("--study", choices=STUDIES, help="what is compared; needed")
    parser.add_argument(
        "--arms", metavar="A,B", help="some of the study's, or patterns; else all"
    )
    parser.add_argument(
        "--epochs", type=positive_float, help="shorter than the config says"
    )
    parser.add_argument("--final", action="store_true", help="test the config itself")
    parser.add_argument(
        "--all_images", action="store_true", help="--final: train on the hold-out, too"
    )
    parser.add_argument("--record", metavar="FILE.json", type=json_path)
    options = parse(parser, arguments)
    if not options.study:
        raise UserError(f"--study is missing; give one of {', '.join(STUDIES)}.")
    refuse_data_of_digits(options.data, load_config_file(STUDIES[options.study].config))
    for name in ("arms", "epochs"):
        if options.final and getattr(options, name):
            raise UserError(
                f"--{name} changes what is compared, but --final trains the config as "
                "it stands; leave out one of the two."
            )
    if options.all_images and not options.final:
        raise UserError(
            "--all_images trains on the hold-out, which arms are ranked by; give it "
            "only with --final."
        )
    return options


def _check(search: Search, arms: Sequence[Job]) -> None:
    if any(job.requested()["data.select_on"] != "val" for job in arms):
        raise UserError(
            "config.data.select_on is not val, but settings are chosen on images held "
            "out; leave it as it is."
        )
    options = search.options
    by_time = search.study.is_race or (options.final and search.study.equal_time)
    if by_time and options.parallel > 1:
        raise UserError(
            f"--parallel is {options.parallel}, but runs whose seconds are compared "
            "must not slow each other down; leave it out."
        )


def main(arguments: Sequence[str]) -> int:
    """Trains arms or final runs, and updates the record."""
    options = _parse(arguments)
    study = STUDIES[options.study]
    shared = options.settings | data_settings(options.data)
    jobs = Jobs(options.out, parallel=options.parallel)
    search = Search(study, shared, jobs, options)
    place = jobs.out if options.small else RESULTS
    file = options.record or place / f"{options.study}.json"
    record = read_record(file, study)
    require_same_configs(record["final" if options.final else "runs"], file)
    arms = search.arm_jobs(_choose_arms(study, options))
    _check(search, list(arms))
    if options.final:
        for job in plan_final(search):
            if isinstance(job, Job):
                job.load_config()  # A mistake is found before the first training.
        require_same_rows(record["final"], search.our_jobs(), file)
    else:
        require_same_base(record, arms, study, file)
        require_same_rows(record["runs"], arms, file)
    if options.dry_run:
        for item in plan_final(search) if options.final else arms:
            print(item if isinstance(item, str) else shlex.join(jobs.command(item)))
        return 0
    if options.final:
        final, probes, left = train_final(search, options.deadline)
        all_jobs = [*final, *probes]
        # Anew: somebody may have added to it while the runs were trained.
        record = read_record(file, study)
        # The length of rivals is known only now.
        require_same_rows(record["final"], final, file)
        record["final"] |= report_final(search, final)
    else:
        all_jobs = [*arms]
        left = jobs.launch(all_jobs, deadline=options.deadline, retry=options.retry)
        record = read_record(file, study)
        for job, arm in arms.items():
            record["learned"].setdefault(arm, "")
            if jobs.is_finished(job):
                row = {"arm": arm} | describe_job(jobs, job)
                record["runs"][job.name] = row
    if record["runs"] or record["final"]:
        write_record(file, record, study)
        say(str(file.with_suffix(".md")))
    status = 0
    if options.final and not jobs.is_stopped and options.time_limit_seconds:
        status = compare_final(search, final, options.deadline)
    say(str(jobs.pack("search")))
    return report_left(jobs, all_jobs, left) or status


if __name__ == "__main__":
    run_command(main)
