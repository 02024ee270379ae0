"""A network as boxes and arrows: all of it, and one of its blocks opened up."""

import dataclasses
import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from vit_jax.figures import style

# Fill and edge of a box for each kind of part.
_COLORS = {
    "data": ("#FFFFFF", "0.45"),
    "embedding": ("#FCEBC4", style.ORANGE),
    "norm": ("#E9E9E9", "0.45"),
    "attention": ("#D3E6F3", style.BLUE),
    "mlp": ("#CDEBE2", style.GREEN),
    "convolution": ("#D3E6F3", style.BLUE),
    "block": ("#DDF0FB", style.SKY),
    "head": ("#F6E1EC", style.PURPLE),
}
# All lengths are in inches, with y from the top down.
_BOX_WIDTH = 2.9
_SHORTCUT_WIDTH = 1.95
_LINE_HEIGHT = 0.155
_ARROW = 0.36
_BYPASS = 0.32
_ZOOM = 0.6
_MARGIN = 0.14
_PLUS_RADIUS = 0.11


@dataclasses.dataclass(frozen=True)
class Part:
    """One box.

    Attributes:
      name: such as "LayerNorm".
      lines: what it does, in a few words each.
      kind: a key of `_COLORS`, which colours it.
      output: shape of what leaves it for one image, as text; "" for the last part.
      num_params: trained numbers in it; 0 is not written.
    """

    name: str
    lines: tuple[str, ...]
    kind: str
    output: str
    num_params: int = 0


@dataclasses.dataclass(frozen=True)
class Branch:
    """Parts whose output is added to what bypasses them.

    Attributes:
      parts: from the first to the last.
      shortcut: on the bypass; None: the identity.
    """

    parts: tuple[Part, ...]
    shortcut: Part | None = None

    @property
    def output(self) -> str:
        """Shape of the sum."""
        return self.parts[-1].output


@dataclasses.dataclass(frozen=True)
class Architecture:
    """What is drawn.

    Attributes:
      parts: of the whole network, from the image to the classes.
      opened: index of the part one of whose blocks is drawn beside it.
      block_title: of that block.
      block_input: shape of what enters the block, as text.
      block: its parts and branches, from the first to the last.
      notes: sentences under the drawing.
    """

    parts: tuple[Part, ...]
    opened: int
    block_title: str
    block_input: str
    block: tuple[Part | Branch, ...]
    notes: tuple[str, ...] = ()


def architecture(described: Architecture, *, title: str = "Architecture") -> Figure:
    """The network from top to bottom and, beside it, one of its blocks.

    Each arrow shows the shape of what passes for one image, and each box its number of
    parameters.
    """
    block_height = _height(described.block) + 2 * _ARROW + 0.45
    height = max(_height(described.parts) + 0.2, block_height)
    has_box = any(isinstance(i, Branch) and i.shortcut for i in described.block)
    bypass = _BYPASS + (_SHORTCUT_WIDTH if has_box else 0)
    panel_left = _MARGIN + _BOX_WIDTH + _ZOOM
    panel_width = 2 * _MARGIN + _BOX_WIDTH + bypass
    width = panel_left + panel_width + 0.05
    notes = [line for note in described.notes for line in textwrap.wrap(note, 90)]
    notes_height = 0.1 + _LINE_HEIGHT * len(notes)

    lines = [style.ellipsize(line, 62) for line in title.splitlines()]
    figure = style.new_figure(
        width + 0.3, height + notes_height + 0.3 + 0.2 * len(lines), "\n".join(lines)
    )
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set(xlim=(0, width), ylim=(height + notes_height, -0.05), aspect="equal")

    top = (height - _height(described.parts) - 0.2) / 2 + 0.2
    for x in (_MARGIN, panel_left + _MARGIN):
        y = top if x == _MARGIN else (height - block_height) / 2 + 0.25
        style_ = {"fontsize": 7.5, "color": "0.4", "va": "bottom", "ha": "right"}
        axes.text(x + _BOX_WIDTH - 0.05, y - 0.03, "parameters", **style_)
    edges = _draw_column(axes, _MARGIN, top, described.parts)

    panel_top = (height - block_height) / 2
    look = {"facecolor": "0.975", "edgecolor": "0.6", "linewidth": 0.8, "zorder": 0}
    _add_rectangle(axes, panel_left, panel_top, panel_width, block_height, **look)
    for opened, corner in zip(
        edges[described.opened], (panel_top, panel_top + block_height), strict=True
    ):
        axes.plot(
            (_MARGIN + _BOX_WIDTH, panel_left), (opened, corner), "--", c="0.6", lw=0.8
        )
    _draw_block(axes, panel_left + _MARGIN, panel_top, described)
    for i, note in enumerate(notes):
        y = height + 0.1 + _LINE_HEIGHT * (i + 0.5)
        axes.text(_MARGIN, y, note, fontsize=8, color="0.3", va="center")
    return figure


def _box_height(part: Part) -> float:
    return 0.27 + _LINE_HEIGHT * len(part.lines)


def _height(items: tuple[Part | Branch, ...]) -> float:
    heights = [
        _height(item.parts) + _ARROW + 2 * _PLUS_RADIUS
        if isinstance(item, Branch)
        else _box_height(item)
        for item in items
    ]
    return sum(heights) + _ARROW * (len(items) - 1)


def _add_rectangle(
    axes: Axes, x: float, y: float, width: float, height: float, **look
) -> None:
    shape = "round,pad=0,rounding_size=0.05"
    box = FancyBboxPatch((x, y), width, height, boxstyle=shape, **look)
    axes.add_patch(box)


def _draw_block(axes: Axes, x: float, y: float, described: Architecture) -> None:
    axes.text(
        x, y + 0.16, described.block_title, fontsize=9.5, weight="bold", va="center"
    )
    first_is_branch = isinstance(described.block[0], Branch)
    top = y + 0.3
    _draw_arrow(axes, x, top, described.block_input, first_is_branch)
    edges = _draw_column(axes, x, top + _ARROW, described.block)
    _draw_arrow(axes, x, edges[-1][1], described.block[-1].output)


def _draw_column(
    axes: Axes, x: float, y: float, items: tuple[Part | Branch, ...]
) -> list[tuple[float, float]]:
    """Draws items from `y` down with arrows between them; top and bottom of each."""
    edges = []
    for item, following in zip(items, (*items[1:], None), strict=True):
        draw = _draw_branch if isinstance(item, Branch) else _draw_box
        bottom = draw(axes, x, y, item)
        edges.append((y, bottom))
        if following is not None:
            _draw_arrow(axes, x, bottom, item.output, isinstance(following, Branch))
        y = bottom + _ARROW
    return edges


def _draw_box(
    axes: Axes, x: float, y: float, part: Part, width: float = _BOX_WIDTH
) -> float:
    fill, edge = _COLORS[part.kind]
    height = _box_height(part)
    look = {"facecolor": fill, "edgecolor": edge, "linewidth": 1.0, "zorder": 2}
    _add_rectangle(axes, x, y, width, height, **look)
    look = {"va": "center", "zorder": 3}
    first = y + 0.145
    axes.text(x + 0.08, first, part.name, fontsize=9, weight="bold", **look)
    if part.num_params:
        count = f"{part.num_params:,}"
        axes.text(x + width - 0.07, first, count, fontsize=8, ha="right", **look)
    for i, line in enumerate(part.lines, start=1):
        place = first + _LINE_HEIGHT * i
        axes.text(x + 0.08, place, line, fontsize=8, color="0.25", **look)
    return y + height


def _draw_arrow(
    axes: Axes, x: float, y: float, label: str, before_branch: bool = False
) -> None:
    """An arrow of fixed length down from `y`; before a branch, the fork is on it."""
    center = x + _BOX_WIDTH / 2
    _point(axes, (center, y), (center, y + _ARROW))
    place = y + _ARROW * (0.33 if before_branch else 0.47)
    axes.text(center + 0.09, place, label, fontsize=8, va="center", color="0.15")


def _draw_branch(axes: Axes, x: float, y: float, branch: Branch) -> float:
    center, fork = x + _BOX_WIDTH / 2, y - 0.3 * _ARROW
    bottom = _draw_column(axes, x, y, branch.parts)[-1][1]
    _draw_arrow(axes, x, bottom, branch.output)
    plus = bottom + _ARROW + _PLUS_RADIUS
    aside = x + _BOX_WIDTH + _BYPASS / 2
    if branch.shortcut is not None:
        aside += _SHORTCUT_WIDTH / 2
    axes.plot(
        (center, aside, aside), (fork, fork, plus), color="0.25", lw=1.0, zorder=1
    )
    _point(axes, (aside, plus), (center + _PLUS_RADIUS, plus))
    axes.add_patch(Circle((center, fork), 0.022, color="0.25", zorder=3))
    axes.add_patch(Circle((center, plus), _PLUS_RADIUS, fc="w", ec="0.25", zorder=3))
    axes.text(center, plus, "+", fontsize=11, ha="center", va="center", zorder=4)
    if branch.shortcut is not None:
        place = (fork + plus - _box_height(branch.shortcut)) / 2
        left = aside - _SHORTCUT_WIDTH / 2
        end = _draw_box(axes, left, place, branch.shortcut, _SHORTCUT_WIDTH)
        axes.text(aside + 0.07, end + 0.14, branch.shortcut.output, fontsize=8)
    return plus + _PLUS_RADIUS


def _point(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    look = {"arrowstyle": "-|>", "color": "0.25", "lw": 1.0, "mutation_scale": 8}
    axes.annotate("", end, start, arrowprops={**look, "shrinkA": 0, "shrinkB": 0})
