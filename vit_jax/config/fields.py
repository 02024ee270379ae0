"""Kinds of settings, each with the check and conversion of its values."""

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from vit_jax.config.durations import parse_duration, parse_interval, parse_time_budget

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
    is_sequence = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not is_sequence or len(value) > _MAX_LENGTH:
        raise ValueError
    return value


@dataclasses.dataclass(frozen=True)
class Field:
    """One setting; it may be None if that is its default.

    Attributes:
      default: the value that it has unless a config or the command line sets it.
      meaning: a sentence that says what the setting does, with its unit.
      kind: the values that it may take, in words.
      check: returns a value other than None in the type of the setting, or raises
        ValueError, TypeError, OverflowError or UserError.
    """

    default: Any
    meaning: str
    kind: str
    check: Callable[[Any], Any]

    @property
    def allowed(self) -> str:
        """The values that it may take, in words, for messages."""
        return self.kind if self.default is not None else f"None or {self.kind}"

    def convert(self, value: Any) -> Any:
        """The value in the type of the setting; raises as `check` does."""
        return None if value is self.default is None else self.check(value)


def integer(
    default: int | None, meaning: str, low: int = 0, high: int = MAX_INTEGER
) -> Field:
    """A whole number from `low` to `high`; 5.0 and 1e3 are whole, True is not one."""

    def check(value):
        if isinstance(value, bool) or value != int(value) or not low <= value <= high:
            raise ValueError
        return int(value)

    return Field(default, meaning, f"a whole number from {low} to {high}", check)


def number(
    default: float | None,
    meaning: str,
    low: float = 0.0,
    high: float = math.inf,
    open_high: bool = False,
) -> Field:
    """A number from `low` to `high`, which is excluded if `open_high`."""

    def check(value):
        value = _float(value)
        if not low <= value <= high or (open_high and value == high):
            raise ValueError
        return value

    if high < math.inf:
        kind = f"a number from {low:g} to {high:g}"
    elif low > -math.inf:
        kind = f"a number of at least {low:g} that float32 holds"
    else:
        kind = "a number that float32 holds"
    kind += " (not included)" if open_high else ""
    return Field(default, meaning, kind, check)


def fraction(default: float | None, meaning: str, below_one: bool = False) -> Field:
    """A number from 0 to 1; 1 is excluded if `below_one`."""
    return number(default, meaning, 0.0, 1.0, below_one)


def choice(options: Sequence[str], meaning: str, optional: bool = False) -> Field:
    """One of `options`; the default is the first, or None where it is `optional`."""

    def check(value):
        if value not in options:
            raise ValueError
        return value

    default = None if optional else options[0]
    return Field(default, meaning, "one of " + ", ".join(options), check)


def switch(default: bool | None, meaning: str) -> Field:
    """True or False; the numbers 1 and 0 are refused."""

    def check(value):
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Field(default, meaning, "True or False", check)


def text(default: str, meaning: str) -> Field:
    """Text of at most 4,096 characters without NUL, which no path or name may have; a
    `pathlib.Path` is stored as its text."""

    def check(value):
        value = os.fspath(value)
        if not isinstance(value, str) or "\0" in value or len(value) > 4096:
            raise ValueError
        return value

    return Field(default, meaning, "text", check)


def duration(default: str, meaning: str, above_zero: bool = False) -> Field:
    """A duration that `durations.parse_duration` reads; it is stored as written."""
    kind = "a duration above 0" if above_zero else "a duration"
    kind += ' such as "5 epochs", "300 steps", "10%" or 5 (epochs)'
    return Field(default, meaning, kind, _as_written(parse_duration, above_zero))


def interval(default: str, meaning: str) -> Field:
    """What `durations.parse_interval` reads, above 0; it is stored as written."""
    kind = 'a time such as "2 minutes", or a duration above 0 such as "5 epochs" or '
    kind += '"300 steps"'
    return Field(default, meaning, kind, _as_written(parse_interval, above_zero=True))


def _as_written(
    parse: Callable[[Any], tuple[float, str]], above_zero: bool
) -> Callable[[Any], Any]:
    def check(value):
        if parse(value)[0] == 0 and above_zero:
            raise ValueError
        return value

    return check


def time_budget(meaning: str) -> Field:
    """What `durations.parse_time_budget` reads, or None; it is stored as written."""
    kind = 'a time such as "15 minutes", "30 CPU minutes" or "4 hours"'
    return Field(None, meaning, kind, lambda x: parse_time_budget(x) and x)


def numbers(
    default: Sequence[float] | None,
    meaning: str,
    high: float = math.inf,
    with_zero: bool = False,
) -> Field:
    """At least one number, each above 0, or 0 if `with_zero`, and at most `high`."""

    def check(value):
        numbers = tuple(_float(x) for x in _sequence(value))
        within = all(0 <= x <= high for x in numbers)
        if not numbers or not within or (0 in numbers and not with_zero):
            raise ValueError
        return numbers

    limit = f" and at most {high:g}" if high < math.inf else ""
    limits = f"from 0 to {high:g}" if with_zero else f"above 0{limit}"
    return Field(default, meaning, f"a list of numbers {limits}", check)


def span(default: tuple[float, float], meaning: str, high: float = math.inf) -> Field:
    """An interval: two finite numbers in ascending order, above 0, at most `high`."""

    def check(value):
        low, top = (_float(x) for x in _sequence(value))
        if not 0 < low <= top <= high:
            raise ValueError
        return low, top

    limit = f" and at most {high:g}" if high < math.inf else ""
    kind = f"two numbers above 0{limit}, the smaller first"
    return Field(default, meaning, kind, check)


def integers(
    default: Sequence[int] | None, meaning: str, count: int | None = None
) -> Field:
    """A sequence of whole numbers above 0: `count` of them, or any number."""
    check_one = integer(None, meaning, 1).check

    def check(value):
        numbers = tuple(map(check_one, _sequence(value)))
        if count not in (None, len(numbers)):
            raise ValueError
        return numbers

    many = "" if count is None else f"{count} "
    return Field(default, meaning, f"a list of {many}whole numbers above 0", check)


def texts(default: Sequence[str], meaning: str) -> Field:
    """A sequence of texts, which may be empty; a text alone is a sequence of one."""

    def check(value):
        single = (value,) if value else ()
        values = single if isinstance(value, str) else tuple(_sequence(value))
        if not all(isinstance(x, str) and len(x) <= 4096 for x in values):
            raise ValueError
        return values

    return Field(tuple(default), meaning, "a text or a list of texts", check)
