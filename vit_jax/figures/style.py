"""The look of every figure: colours, sizes, labels, and how it is saved."""

import collections
import contextlib
import functools
import io
import os
import pathlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped, UInt8
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

from vit_jax.errors import printable
from vit_jax.files import report_failure, write_file

# Okabe & Ito, "Color Universal Design" (2008): distinct with any colour vision.
BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#CDBB00"  # Darker than theirs, which is hardly visible on white.
BLUE = "#0072B2"
RED = "#D55E00"
PURPLE = "#CC79A7"
# Two more, for the ten classes of CIFAR-10.
GREY = "#999999"
BROWN = "#7A3B10"

PALETTE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK, YELLOW, BROWN, GREY)
LINE_STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "p")

DIVERGING = "PuOr"
HEAT = "inferno"

_ZERO_WIDTH_SPACE = "\u200b"

# More bars, rows or names of classes than these cannot be read in one figure.
MAX_CLASSES = 20


def series_look(index: int) -> dict[str, str]:
    """Colour, dashes and marker of a series or a class, from 0.

    Ten colours are distinct. With dashes 20 lines are, and with markers 100 classes.
    """
    return {
        "color": PALETTE[index % len(PALETTE)],
        "linestyle": LINE_STYLES[index % len(LINE_STYLES)],
        "marker": MARKERS[(index + index // len(PALETTE)) % len(MARKERS)],
    }


def shown_classes(
    by: str, scores: Shaped[np.ndarray, " k"], most: int = MAX_CLASSES
) -> tuple[Int[np.ndarray, " shown"], str]:
    """The classes that a figure shows one by one, and the line of its title about them.

    Up to `most` classes are all shown, in their order, which needs no line. Of more,
    the figure shows the `most` / 2 with the lowest scores and as many with the highest
    ones, from the lowest to the highest; or the first `most` if all scores are equal. A
    class without a score (NaN) is not among these. `by` names the scores.
    """
    count, half = len(scores), most // 2
    if count <= most:
        return np.arange(count), ""
    order = np.argsort(scores, kind="stable")[: np.isfinite(scores).sum()]  # NaN: last
    if len(order) <= most:
        return order, f"\nthe {len(order)} of {count} classes whose {by} is known"
    if scores[order[0]] == scores[order[-1]]:
        return order[:most], f"\nthe first {most} of {count} classes"
    shown = np.concatenate([order[:half], order[-half:]])
    return shown, f"\n{most} of {count} classes: the lowest and the highest by {by}"


class _PlainFigure(Figure):
    """A figure that shows every text as it is.

    A dollar sign in the name of a class, a file or a run starts no formula, and what a
    font cannot show is escaped, as "\\u732b".
    """

    def draw(self, renderer) -> None:
        for text in self.findobj(Text):
            text.set_parse_math(False)
            text.set_text(drawable(text.get_text(), text.get_fontproperties()))
        super().draw(renderer)


def drawable(text: str, properties: FontProperties | None = None) -> str:
    """The text with every character escaped that cannot be shown, by default in the
    usual font.

    Labels of ticks need it: their axis sets them anew each time it is drawn.
    """
    shown = _characters_of(properties or FontProperties())
    return "".join(
        char if char == "\n" or ord(char) in shown else ascii(char)[1:-1]
        for char in printable(text)
    )


def _characters_of(properties: FontProperties) -> frozenset[int]:
    """The Unicode numbers of the characters that the families of a font can show."""
    fonts = []
    for family in properties.get_family():
        one = properties.copy()
        one.set_family(family)
        with contextlib.suppress(ValueError):  # there is no such font
            fonts.append(font_manager.findfont(one, fallback_to_default=False))
    fonts = fonts or [font_manager.findfont(properties)]
    return frozenset().union(*map(_characters_in, fonts))


@functools.lru_cache
def _characters_in(font: str) -> frozenset[int]:
    """The Unicode numbers of the characters that the file of a font has."""
    return frozenset(font_manager.get_font(font).get_charmap())


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """An empty figure, `width` by `height` inches, that arranges its axes itself."""
    figure = _PlainFigure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.07, h_pad=0.07)  # inches
    if title:
        figure.suptitle(title, fontsize=12, fontweight="bold", wrap=True)
    return figure


def ellipsize(text: str, length: int) -> str:
    """The text, with "…" for its middle if it is longer than `length`, 3 or more."""
    if len(text) <= length:
        return text
    return f"{text[: (length - 1) // 2]}…{text[-(length // 2) :]}"


def short_names(names: Sequence[str], length: int = 13) -> list[str]:
    """Each name as a figure shows it, shortened, and different from the others.

    Args:
      names: such as of classes; one that stands twice is shown in the same way twice.
      length: in characters; 13 fit above a small image. A name may be 5 longer.
    """
    groups = collections.defaultdict(list)
    for name in map(drawable, dict.fromkeys(names)):
        groups[ellipsize(name, length)].append(name)
    shown = {}
    for group in groups.values():
        shown |= dict(zip(group, _shorten_apart(group, length), strict=True))
    return [shown[drawable(name)] for name in names]


def _shorten_apart(names: list[str], length: int) -> list[str]:
    """The names shortened, by their ends or else by where they begin to differ."""
    for size in range(length, length + 6):
        found = [ellipsize(name, size) for name in names]
        if len({*found}) == len(names):
            return found
    common = max(0, len(os.path.commonprefix(names)) - 2)  # noqa: RUF071
    found = [ellipsize(f"…{name[common:]}", length) for name in names]
    if len({*found}) == len(names):
        return found
    return [f"{ellipsize(name, length - 4)} {i}" for i, name in enumerate(names)]


def legend_names(names: Sequence[str]) -> list[str]:
    """Names of classes or runs, shortened, as labels that every legend shows.

    Matplotlib leaves labels that begin with "_" out of its legends.
    """
    return [
        f"{_ZERO_WIDTH_SPACE}{name}" if name.startswith("_") else name
        for name in short_names(names, 40)
    ]


def label_axes(axes: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Title, axis labels with their units, a light grid, and only two spines."""
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x, fontsize=10)
    axes.set_ylabel(y, fontsize=10)
    axes.tick_params(labelsize=9)
    axes.grid(True, color="0.88", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def label_classes(axis, class_names: Sequence[str], rotation: float = 0) -> None:
    """Names the ticks 0, 1, ... of an axis; only some of them if there are many.

    Long names are shortened, or they would leave no room for what the figure shows.
    Names of one or two characters, such as those of digits, are not rotated.
    """
    if all(len(name) <= 2 for name in class_names):
        rotation = 0
    step = -(-len(class_names) // 25) if len(class_names) > 50 else 1
    turned = {"rotation": rotation, "ha": "right", "rotation_mode": "anchor"}
    axis.set_ticks(
        range(0, len(class_names), step),
        short_names(class_names, 24)[::step],
        fontsize=9 if len(class_names) <= MAX_CLASSES else 7,
        **(turned if rotation else {}),
    )


def legend_beside(axes: Axes, **options) -> None:
    """A legend to the right of the axes."""
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    axes.legend(**place, fontsize=9, frameon=False, **options)


def legend_above(axes: Axes, num_columns: int, **options) -> None:
    """A legend above the axes, for bars that leave no room inside."""
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    axes.legend(**place, ncols=num_columns, fontsize=9, frameon=False, **options)


def draw_measured(axes: Axes, x: np.ndarray, y: np.ndarray, **look) -> None:
    """A line through the values that are finite; a dot if there is only one."""
    known = np.isfinite(y)
    look |= {"marker": "o" if known.sum() == 1 else None, "linewidth": 1.6}
    axes.plot(x[known], y[known], **look)


def show_image(axes: Axes, image: UInt8[np.ndarray, "h w c"], title: str = "", **text):
    """Draws an RGB or grey image without ticks; `text` styles its small title."""
    grey = image.shape[2] == 1
    axes.imshow(image[..., 0] if grey else image, cmap="gray", vmin=0, vmax=255)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, **{"fontsize": 9, "pad": 3, **text})


def save(figure: Figure, path: str | pathlib.Path) -> pathlib.Path:
    """Writes a PNG or a PDF, by the suffix, and creates the folder.

    Pictures have 150 dots per inch, or the figure's own `dpi` if that is more.
    """
    path, picture = pathlib.Path(path), io.BytesIO()
    kind = path.suffix.removeprefix(".")
    figure.savefig(picture, format=kind, dpi=max(150, figure.dpi))
    with report_failure(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, picture.getvalue())
    return path
