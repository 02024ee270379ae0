"""The most telling measurements on a new GPU, in order, for as long as there is time.

    python -m experiments.first_light --data=DIR --out=DIR --minutes=N

1. The fewest seconds to 94%.
2. The flagship and the ResNet-18 at equal time: accuracy over seconds.
3. The first 20 steps of our configs: device, dtypes, losses, whether anything is
   compiled again, whether the same steps give the same bits, and the seconds of a step
   beside those that were forecast.
4. Train steps against PyTorch's, in one process.
5. The implementations of attention, their speed and their errors. Whether a resumed run
   has the bits of one that ran through.
6. More seeds of 1 and 2.
7. The arms of the search.
8. The published studies, by both protocols.

Each part writes OUT/NAME.json when it ends, also when it was cut short, and the next
call skips what is finished and goes on with the rest. A part is started only where the
time that is left can give something. OUT/first_light.tar.gz has all small files, and
can be unpacked into another OUT. Exit status: 0 all done, 1 a part failed, 75 parts
are left (the same command goes on).
"""

import argparse
import json
import pathlib
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any

from experiments.first_lighting.parts import make_parts, planned_seconds
from experiments.first_lighting.session import Part, Session, write_result
from experiments.launching.jobs import is_finished
from experiments.launching.options import LEFT_OVER, choose, positive_float
from experiments.launching.pack import pack
from vit_jax.errors import UserError
from vit_jax.files import make_folder, user_path
from vit_jax.parallel.commands import make_parser, run_command
from vit_jax.parallel.signals import StopSignals
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.lock import lock
from vit_jax.training.progress import say


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser("experiments.first_light", __doc__)
    parser.add_argument(
        "--data", metavar="DIR", required=True, help="official CIFAR-10 files"
    )
    parser.add_argument("--out", metavar="DIR", default="runs/first_light")
    parser.add_argument(
        "--minutes", type=float, required=True,
        help="time for all of it; half a minute more where a process does not answer",
    )  # fmt: skip
    parser.add_argument(
        "--equal_minutes", type=positive_float,
        help="training time of each model in equal_time (what is left, at most 8)",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="PART,PART", help="some parts, or patterns; else all"
    )
    parser.add_argument("--small", action="store_true", help="tiny, as a test")
    options = parser.parse_args(arguments)
    options.out = user_path(options.out).absolute()
    options.data = user_path(options.data).absolute()
    if options.equal_minutes and 60 * options.equal_minutes < 1:
        raise UserError(
            f"--equal_minutes is {options.equal_minutes:g}, less than one second; give "
            "a longer time."
        )
    if not options.data.exists():
        raise UserError(
            f"There is no {options.data}; --data is the folder or the archive of the "
            "official CIFAR-10 files."
        )
    return options


def _choose(parts: Sequence[Part], only: str | None) -> list[Part]:
    known = {part.name: part for part in parts}
    return [known[name] for name in choose(only, known, known, "part")]


def _read(file: pathlib.Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {"finished": False}


def _pack(out: pathlib.Path) -> pathlib.Path:
    folders = [RunFolder(path) for path in sorted(out.glob("*/runs/*"))]
    return pack(out, "first_light", [f for f in folders if not is_finished(f)])


def main(arguments: Sequence[str]) -> int:
    """Runs the parts that are not finished, for as long as there is time."""
    options = _parse(arguments)
    deadline = time.monotonic() + 60 * options.minutes
    parts = _choose(make_parts(options.small), options.only)
    make_folder(options.out, "--out")
    planned_seconds(options)
    left, failed = [], []
    with lock(options.out / "lock.json", option="--out"), StopSignals() as signals:
        session = Session(options, deadline, signals)
        for part in parts:
            file = options.out / f"{part.name}.json"
            result = _read(file)
            least = 0 if options.small else part.least_seconds
            if not result["finished"] and session.seconds_left() > least:
                say(f"{part.name}: {session.seconds_left():.0f} s are left")
                start = time.monotonic()
                result = part.run(session)
                result["wall_seconds"] = time.monotonic() - start
                write_result(file, result)
                for line in result["summary"]:
                    say(f"  {line}")
            if not result["finished"]:
                (failed if "error" in result else left).append(part.name)
        say(str(_pack(options.out)))
    for part in parts:
        for line in _read(options.out / f"{part.name}.json").get("summary", ()):
            say(f"{part.name}: {line}")
    if failed:
        say(f"failed: {', '.join(failed)}")
    if left:
        say(f"left: {', '.join(left)}\ngo on with: {shlex.join(sys.orig_argv)}")
        return LEFT_OVER
    return 1 if failed else 0


if __name__ == "__main__":
    run_command(main)
