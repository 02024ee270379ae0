"""Kinds of settings, each with the check and conversion of its values."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from vit_jax.config.durations import parse_duration, parse_time_budget
from vit_jax.errors import UserError

# JAX counts in int32, and computes in float32: outside of these, numbers overflow or
# become 0 somewhere on the way.
MAX_INTEGER = 2**31 - 1
_MIN_NUMBER, MAX_NUMBER = 1e-37, 3e38
_MAX_LENGTH = 1000  # of a list


def _float(value: Any) -> float:
    """A number that float32 holds; raises ValueError."""
    if isinstance(value, bool | str):
        raise ValueError
    value = float(value)
    if value != 0 and not _MIN_NUMBER <= abs(value) <= MAX_NUMBER:
        raise ValueError
    return value


def _sequence(value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ValueError
    if len(value) > _MAX_LENGTH:
        raise ValueError
    return value


@dataclasses.dataclass(frozen=True)
class Field:
    """One setting.

    Attributes:
      default: the value that it has unless a config or the command line sets it.
      meaning: a sentence that says what the setting does, with its unit.
      allowed: the values that it may take, in words, for messages.
      convert: returns a value in the type of the setting, or raises ValueError.
    """

    default: Any
    meaning: str
    allowed: str
    convert: Callable[[Any], Any]


def integer(
    default: int | None,
    meaning: str,
    low: int = 0,
    high: int = MAX_INTEGER,
    optional: bool = False,
) -> Field:
    """A whole number from `low` to `high`; 5.0 and 1e3 are whole, True is not one.

    Here and below, `optional` settings may be None as well.
    """

    def convert(value):
        if value is None and optional:
            return None
        if isinstance(value, bool) or value != int(value):
            raise ValueError
        if not low <= value <= high:
            raise ValueError
        return int(value)

    allowed = f"a whole number from {low} to {high}" + (" or None" if optional else "")
    return Field(default, meaning, allowed, convert)


def count_or_share(default: int, meaning: str) -> Field:
    """A whole number of at least 0, or a share such as "10%", kept as written."""

    def convert(value):
        if not isinstance(value, str):
            return integer(default, meaning).convert(value)
        try:
            number, unit = parse_duration(value)
        except UserError as error:
            raise ValueError from error
        if unit != "%" or not 0 < number < 100:
            raise ValueError
        return value

    allowed = 'a whole number of at least 0, or a share such as "10%"'
    return Field(default, meaning, allowed, convert)


def number(
    default: float | None,
    meaning: str,
    low: float = 0.0,
    high: float = math.inf,
    open_high: bool = False,
    optional: bool = False,
) -> Field:
    """A number from `low` to `high`, which is excluded if `open_high`."""

    def convert(value):
        if value is None and optional:
            return None
        value = _float(value)
        if not low <= value <= high or (open_high and value == high):
            raise ValueError
        return value

    if high < math.inf:
        allowed = f"a number from {low:g} to {high:g}"
    elif low > -math.inf:
        allowed = f"a number of at least {low:g}"
    else:
        allowed = "a finite number"
    allowed += " (not included)" if open_high else ""
    allowed += f", 0 or of a size from {_MIN_NUMBER:g} to {MAX_NUMBER:g}"
    return Field(default, meaning, allowed + (" or None" if optional else ""), convert)


def fraction(
    default: float | None, meaning: str, below_one: bool = False, optional: bool = False
) -> Field:
    """A number from 0 to 1; 1 is excluded if `below_one`."""
    return number(default, meaning, 0.0, 1.0, below_one, optional)


def choice(options: Sequence[str | None], meaning: str) -> Field:
    """One of `options`, the first of which is the default."""

    def convert(value):
        if value not in options:
            raise ValueError
        return value

    allowed = "one of " + ", ".join(map(str, options))
    return Field(options[0], meaning, allowed, convert)


def switch(default: bool | None, meaning: str, optional: bool = False) -> Field:
    """True or False; the numbers 1 and 0 are refused."""

    def convert(value):
        if not isinstance(value, bool) and not (optional and value is None):
            raise ValueError
        return value

    allowed = "True or False" + (" or None" if optional else "")
    return Field(default, meaning, allowed, convert)


def text(default: str, meaning: str) -> Field:
    """Text; no path or name may have a NUL, and none is longer than 4,096."""

    def convert(value):
        if not isinstance(value, str) or "\0" in value or len(value) > 4096:
            raise ValueError
        return value

    return Field(default, meaning, "text", convert)


def duration(default: str, meaning: str) -> Field:
    """A duration that `durations.parse_duration` reads; it is stored as written."""

    def convert(value):
        try:
            parse_duration(value)
        except UserError as error:
            raise ValueError from error
        return value

    allowed = 'a duration such as "5 epochs", "300 steps", "10%" or 5 (epochs)'
    return Field(default, meaning, allowed, convert)


def time_budget(meaning: str) -> Field:
    """None, or what `durations.parse_time_budget` reads; it is stored as written."""

    def convert(value):
        try:
            return value if value is None else parse_time_budget(value) and value
        except UserError as error:
            raise ValueError from error

    allowed = 'None or a time such as "15 minutes", "30 CPU minutes" or "4 hours"'
    return Field(None, meaning, allowed, convert)


def numbers(
    default: Sequence[float] | None, meaning: str, above: float = -math.inf
) -> Field:
    """None, or at least one finite number; all are greater than `above`."""

    def convert(value):
        if value is None:
            return None
        numbers = tuple(_float(x) for x in _sequence(value))
        if not numbers or not all(above < x for x in numbers):
            raise ValueError
        return numbers

    limit = f" above {above:g}" if above > -math.inf else ""
    return Field(default, meaning, f"None or a list of numbers{limit}", convert)


def span(default: tuple[float, float], meaning: str, high: float = math.inf) -> Field:
    """An interval: two finite numbers in ascending order, above 0, at most `high`."""

    def convert(value):
        low, top = (_float(x) for x in _sequence(value))
        if not 0 < low <= top <= high:
            raise ValueError
        return low, top

    limit = f" and at most {high:g}" if high < math.inf else ""
    allowed = f"two numbers above 0{limit}, the smaller first"
    return Field(default, meaning, allowed, convert)


def integers(default: Sequence[int] | None, meaning: str) -> Field:
    """None, or a sequence of whole numbers above 0, which may be empty."""

    def convert(value):
        if value is None:
            return None
        value = _sequence(value)
        numbers = tuple(int(x) for x in value)
        if any(
            n != x or not 1 <= n <= MAX_INTEGER or isinstance(x, bool)
            for n, x in zip(numbers, value, strict=True)
        ):
            raise ValueError
        return numbers

    return Field(default, meaning, "None or a list of whole numbers above 0", convert)


def texts(default: Sequence[str], meaning: str) -> Field:
    """A sequence of texts, which may be empty; a text alone is a sequence of one."""

    def convert(value):
        single = (value,) if value else ()
        values = single if isinstance(value, str) else tuple(_sequence(value))
        if not all(isinstance(x, str) and len(x) <= 4096 for x in values):
            raise ValueError
        return values

    return Field(tuple(default), meaning, "a text or a list of texts", convert)
