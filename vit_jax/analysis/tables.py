"""Tables as Markdown and CSV.

The library tabulate aligns columns, too, but it does not escape a "|" in a cell.
"""

import csv
import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vit_jax.files import write_file


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


def plain(value: float, form: str) -> str:
    """A number in a format such as ".3g", but without an exponent if it is large."""
    text = f"{value:{form}}"
    is_large = "e+" in text or (form.endswith("g") and abs(value) >= 1000)
    return f"{value:,.0f}" if is_large else text


def write_csv(path: pathlib.Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A line for each row, below the keys of all; what a row lacks is left empty."""
    columns = dict.fromkeys(key for row in rows for key in row)
    write_rows(path, [columns, *([row.get(key) for key in columns] for row in rows)])


def write_rows(path: pathlib.Path, rows: Iterable[Iterable[Any]]) -> None:
    """A line for each row; None becomes empty.

    Raises:
      UserError: the file cannot be written.
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_file(path, text.getvalue())
