"""What a setting may be: kinds of fields, each with its check."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from vit_jax.config.durations import parse_duration
from vit_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Field:
    """One setting.

    Attributes:
      default: its value when nobody says otherwise.
      meaning: what it does, with its unit.
      allowed: the values it may take, in words, for messages.
      convert: returns the value in its proper type, or raises ValueError.
    """

    default: Any
    meaning: str
    allowed: str
    convert: Callable[[Any], Any]


def integer(
    default: int | None, meaning: str, low: int = 0, optional: bool = False
) -> Field:
    """A whole number of at least `low`; 5.0 counts as one, True does not.

    Here and below, `optional` settings may be None as well.
    """

    def convert(value):
        if value is None and optional:
            return None
        if isinstance(value, bool) or value != int(value) or value < low:
            raise ValueError
        return int(value)

    allowed = f"a whole number of at least {low}" + (" or None" if optional else "")
    return Field(default, meaning, allowed, convert)


def number(
    default: float | None,
    meaning: str,
    low: float = 0.0,
    high: float = math.inf,
    open_high: bool = False,
    optional: bool = False,
) -> Field:
    """A finite number from `low` to `high`, or to below it if `open_high`."""

    def convert(value):
        if value is None and optional:
            return None
        if isinstance(value, bool | str) or not math.isfinite(value):
            raise ValueError
        if not low <= value <= high or (open_high and value == high):
            raise ValueError
        return float(value)

    span = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
    allowed = f"a number {span}" + (" (not included)" if open_high else "")
    return Field(default, meaning, allowed + (" or None" if optional else ""), convert)


def share(
    default: float | None, meaning: str, below_one: bool = False, optional: bool = False
) -> Field:
    """A number from 0 to 1, or to below 1."""
    return number(default, meaning, 0.0, 1.0, below_one, optional)


def choice(default: str | None, meaning: str, *options: str | None) -> Field:
    """One of `options`."""

    def convert(value):
        if value not in options:
            raise ValueError
        return value

    return Field(default, meaning, "one of " + ", ".join(map(str, options)), convert)


def switch(default: bool | None, meaning: str, optional: bool = False) -> Field:
    """True or False, and not the numbers 1 and 0."""

    def convert(value):
        if not isinstance(value, bool) and not (optional and value is None):
            raise ValueError
        return value

    allowed = "True or False" + (" or None" if optional else "")
    return Field(default, meaning, allowed, convert)


def text(default: str, meaning: str) -> Field:
    """Any text."""

    def convert(value):
        if not isinstance(value, str):
            raise ValueError
        return value

    return Field(default, meaning, "text", convert)


def duration(default: str, meaning: str) -> Field:
    """What `durations.parse_duration` takes; stays as it was written."""

    def convert(value):
        try:
            parse_duration(value)
        except UserError as error:
            raise ValueError from error
        return value

    allowed = 'a duration such as "5 epochs", "300 steps", "10%" or 5 (epochs)'
    return Field(default, meaning, allowed, convert)


def numbers(
    default: Sequence[float] | None, meaning: str, above: float = -math.inf
) -> Field:
    """None, or one or more finite numbers above `above`."""

    def convert(value):
        if value is None:
            return None
        numbers = tuple(float(x) for x in value)
        if (
            isinstance(value, str)
            or not numbers
            or not all(above < x < math.inf for x in numbers)
        ):
            raise ValueError
        return numbers

    limit = f" above {above:g}" if above > -math.inf else ""
    return Field(default, meaning, f"None or a list of numbers{limit}", convert)


def span(default: tuple[float, float], meaning: str, high: float = math.inf) -> Field:
    """Two finite numbers above 0 and at most `high`, the smaller first."""

    def convert(value):
        low, top = (float(x) for x in value)
        if not (0 < low <= top <= high and math.isfinite(top)):
            raise ValueError
        return low, top

    limit = f" and at most {high:g}" if high < math.inf else ""
    allowed = f"two numbers above 0{limit}, the smaller first"
    return Field(default, meaning, allowed, convert)


def integers(default: Sequence[int] | None, meaning: str) -> Field:
    """None, or whole numbers above 0, as many as one likes."""

    def convert(value):
        if value is None:
            return None
        numbers = tuple(int(x) for x in value)
        if isinstance(value, str) or any(
            n != x or n < 1 for n, x in zip(numbers, value, strict=True)
        ):
            raise ValueError
        return numbers

    return Field(default, meaning, "None or a list of whole numbers above 0", convert)
