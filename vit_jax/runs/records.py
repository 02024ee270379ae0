"""metrics.jsonl: one record of a training interval or an evaluation on each line.

A record's "split" is "train" for an interval, and for an evaluation during training the
split that was scored: "val", or "test" where that split chooses the checkpoint.
"""

import json
import pathlib
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float

from vit_jax.files import (
    MAX_JSON_BYTES,
    hashed,
    open_to_append,
    parse_json,
    read_file,
    report_failure,
    write_file,
)


def append_record(file: pathlib.Path, record: dict[str, Any]) -> None:
    """Adds a line; raises UserError if the file cannot be written."""
    with report_failure(file), open_to_append(file) as opened:
        opened.write(_to_line(record).encode())


def write_records(file: pathlib.Path, records: Iterable[dict[str, Any]]) -> None:
    """Replaces the file; raises as `append_record` does."""
    write_file(file, "".join(map(_to_line, records)))


def read_records(file: pathlib.Path) -> list[dict[str, Any]]:
    """The records, without damaged lines, which a warning counts.

    An incomplete last line is what an interruption leaves and needs no warning.

    Raises:
      UserError: the file cannot be read.
    """
    if not file.exists():
        return []
    records, damaged = [], []
    lines = read_file(file, MAX_JSON_BYTES).split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        try:
            records.append(_parse(line))
        except ValueError:
            damaged.append(number)
    if damaged:
        warnings.warn(
            f"The number of damaged lines in {file} is {len(damaged)}, the first is "
            f"line {damaged[0]}; they are left out.",
            stacklevel=2,
        )
    return records


def evaluations(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of evaluations during training, in order."""
    return [record for record in records if record["split"] != "train"]


def evaluation_curve(
    records: Iterable[dict[str, Any]], x: str, y: str = "accuracy"
) -> tuple[Float[np.ndarray, " evaluations"], Float[np.ndarray, " evaluations"]]:
    """Two fields of the evaluations; NaN where a record has no finite value."""
    scored = evaluations(records)
    first, second = (np.array([r.get(key) for r in scored], float) for key in (x, y))
    return first, second


def _to_line(record: dict[str, Any]) -> str:
    return json.dumps(hashed(record)) + "\n"


def _parse(line: bytes) -> dict[str, Any]:
    """The record of a line; raises ValueError if it is none."""
    record = parse_json(line)
    known = ("step", "epoch", "seconds")
    others = record.keys() - {"split"}
    if not (
        all(isinstance(record.get(key), int | float) for key in known)
        and all(isinstance(record[key], int | float | None) for key in others)
        and isinstance(record.get("split"), str)
    ):
        raise ValueError("it is no record of a training")
    return record
