"""A report as files: CSV tables, PNG figures, one page that holds everything."""

import base64
import csv
import html
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from vit_jax.config import flatten
from vit_jax.figures import style

Rows = Iterable[Iterable[Any]]


def write_report(
    folder: pathlib.Path,
    *,
    title: str,
    scores: Mapping[str, Any],
    config: Mapping[str, Any],
    figures: Mapping[str, Figure],
    tables: Mapping[str, Rows],
) -> pathlib.Path:
    """Writes the CSV files, figures/*.png and report.html; returns the page's path.

    `tables` are further CSV files by name, each with its head as the first row.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(folder, {**_score_tables(scores), **tables})
    pictures = [
        _render_picture(figure, folder / "figures" / f"{name}.png")
        for name, figure in figures.items()
    ]
    page = folder / "report.html"
    page.write_text(render_html(title, scores, config, pictures), encoding="utf-8")
    return page


def _render_picture(figure: Figure, path: pathlib.Path) -> str:
    """Saves a figure and shows it in its size in inches, in which its text is legible.

    A page has 96 pixels to the inch whatever the screen has.
    """
    content = base64.b64encode(style.save(figure, path).read_bytes()).decode()
    return (
        f'<img alt="{html.escape(figure.get_suptitle())}" '
        f'width="{96 * figure.get_figwidth():.0f}" '
        f'src="data:image/png;base64,{content}">\n'
    )


def _write_csv(folder: pathlib.Path, tables: Mapping[str, Rows]) -> None:
    """NAME.csv for each table; None becomes empty."""
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def _score_tables(scores: Mapping[str, Any]) -> dict[str, Rows]:
    names = list(scores["per_class"])
    columns = list(scores["per_class"][names[0]])
    return {
        "summary": [("quantity", "value"), *_single_numbers(scores)],
        "per_class": [
            ("class", *columns),
            *((name, *scores["per_class"][name].values()) for name in names),
        ],
        "confusion": [
            ("true class / predicted class", *names),
            *(
                (n, *row)
                for n, row in zip(names, scores["confusion_matrix"], strict=True)
            ),
        ],
        "top_confusions": [
            ("true class", "predicted class", "images", "fraction of all errors"),
            *(row.values() for row in scores["top_confusions"]),
        ],
        "top_confused_pairs": [
            ("class", "other class", "images", "fraction of all errors"),
            *(row.values() for row in scores["top_confused_pairs"]),
        ],
    }


def _single_numbers(scores: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """("calibration.before.ece", 0.1) and so on: all but the lists and classes."""
    values = flatten({k: v for k, v in scores.items() if k != "per_class"})
    return [(key, value) for key, value in values if not isinstance(value, list)]


def render_html(
    title: str,
    scores: Mapping[str, Any],
    config: Mapping[str, Any],
    pictures: Iterable[str],
) -> str:
    """One page that needs no other file: numbers, PNG figures inside, settings.

    Args:
      title: what the page is about.
      scores: of `scoring.describe_scores`, and whatever else is to be shown.
      config: nested settings.
      pictures: elements of the page that show the figures.
    """
    classes = scores["per_class"]
    columns = list(next(iter(classes.values())))
    per_class_rows = [(name, *row.values()) for name, row in classes.items()]
    settings = [(key, json.dumps(value)) for key, value in flatten(config)]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{html.escape(title)}</h1>\n<h2>Numbers</h2>\n"
        + _html_table(("quantity", "value"), _single_numbers(scores))
        + "<h2>Classes</h2>\n"
        + _html_table(("class", *columns), per_class_rows)
        + f"<h2>Figures</h2>\n{''.join(pictures)}"
        + "<h2>Settings</h2>\n"
        + _html_table(("setting", "value"), settings)
        + "</body>\n</html>\n"
    )


def _html_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def cells(values: Sequence[Any], tag: str) -> str:
        inner = (f"<{tag}>{html.escape(_show(value))}</{tag}>" for value in values)
        return f"<tr>{''.join(inner)}</tr>\n"

    body = "".join(cells(row, "td") for row in rows)
    return (
        f'<div class="wide"><table>\n<thead>{cells(head, "th")}</thead>\n'
        f"<tbody>{body}</tbody></table></div>\n"
    )


def _show(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


# A table may be wider than a telephone's screen, and then moves by itself. On paper no
# row or figure is cut in two, and each page repeats the head of its table.
_STYLE = """
body{font:15px/1.4 sans-serif;max-width:75em;margin:2em auto;padding:0 1em}
h1{overflow-wrap:anywhere}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.15em .8em;text-align:left}
th{background:#ddd}
tbody tr:nth-child(even) td{background:#f4f4f4}
img{display:block;max-width:100%;height:auto;margin:1.5em 0}
@media (max-width:40em){
body{margin:1em auto}
table{font-size:12px}
th,td{padding:.15em .3em}
}
@media print{
body{font-size:9pt;margin:0;padding:0;print-color-adjust:exact}
th,td{padding:.05em .6em}
h2{break-after:avoid}
tr,img{break-inside:avoid}
img{max-height:95vh;object-fit:contain}
.wide{overflow:visible}
}
"""
