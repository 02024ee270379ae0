"""Tables as Markdown and CSV.

The library tabulate aligns columns, too, but it does not escape a "|" in a cell.
"""

import csv
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with aligned columns, so that it is also legible in a terminal."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    return "\n".join(
        [lines[0], f"|{'|'.join('-' * (w + 2) for w in widths)}|", *lines[1:]]
    )


def write_csv(path: pathlib.Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A line for each row, below the keys of all; what a row lacks is left empty."""
    columns = dict.fromkeys(key for row in rows for key in row)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
