"""Durations in epochs, steps or percent, converted to optimizer steps; time budgets.

"5 epochs"   5 passes over the training split; fractions are allowed
"300 steps"  300 optimizer steps
"10%"        a tenth of the whole training
5 or 5.0     the same as "5 epochs"

A time budget is "15 minutes" of wall-clock time or "30 CPU minutes", the processor time
of all threads together; its units are seconds, minutes and hours. An interval is a
duration or wall-clock time.
"""

import math
import re

from vit_jax.errors import UserError, show

_PATTERN = re.compile(
    r"\s*(?P<number>\d+(\.\d*)?|\.\d+)\s*(?P<unit>epochs?|steps?|%)\s*"
)

_TIME_PATTERN = re.compile(
    r"\s*(?P<number>\d+(\.\d*)?|\.\d+)\s*(?P<cpu>CPU\s+)?"
    r"(?P<unit>seconds?|minutes?|hours?)\s*",
    re.IGNORECASE,
)


_MAX = 2**31 - 1  # JAX counts steps in int32


def parse_duration(value: str | int | float) -> tuple[float, str]:
    """The number and the unit, "epochs", "steps" or "%", of a duration.

    Raises:
      UserError: `value` is no duration, negative, not finite, above 2**31 - 1, or a
        fraction of a step.
    """
    match, number = None, -1.0
    if isinstance(value, str):
        match = _PATTERN.fullmatch(value)
        number = float(match["number"]) if match else number
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(min(value, _MAX + 1))
    if not 0 <= number <= _MAX:
        raise UserError(
            f'{show(value)} is not a duration; write for example "5 epochs", '
            '"300 steps", "10%", or a number of epochs from 0 to '
            f"{_MAX}."
        )
    if match is None:
        return number, "epochs"
    unit = match["unit"]
    if unit.startswith("step") and number != int(number):
        raise UserError(f"{show(value)} is not a whole number of steps.")
    return number, {"e": "epochs", "s": "steps", "%": "%"}[unit[0]]


def to_steps(
    value: str | int | float, *, steps_per_epoch: float, total_steps: int | None = None
) -> int:
    """A duration in optimizer steps, rounded to the nearest whole number, half up.

    Args:
      value: a duration in one of the forms above.
      steps_per_epoch: number of training examples over batch size. It need not be
        whole, because a batch may begin in one epoch and end in the next.
      total_steps: length of the whole training; only percentages need it.

    Raises:
      UserError: `value` is no duration, or a percentage although `total_steps` is None.
    """
    number, unit = parse_duration(value)
    if unit == "steps":
        return int(number)
    if unit == "epochs":
        steps = number * steps_per_epoch + 0.5
        if steps > _MAX:
            raise UserError(
                f"{show(value)} epochs of {steps_per_epoch:,.4g} steps are more than "
                f"{_MAX:,} steps, which is the limit; give a shorter duration."
            )
        return math.floor(steps)
    if total_steps is None:
        raise UserError(
            f"{show(value)} is a fraction of the training and cannot be its length; "
            "give epochs or steps."
        )
    return min(_MAX, math.floor(number / 100 * total_steps + 0.5))


def parse_time_budget(value: str) -> tuple[float, bool]:
    """Seconds above 0, and whether they are processor time, of a time budget.

    Raises:
      UserError: `value` is no time budget.
    """
    match = _TIME_PATTERN.fullmatch(value) if isinstance(value, str) else None
    if not match or not 0 < float(match["number"]) <= _MAX:
        raise UserError(
            f'{show(value)} is not a time budget; write for example "15 minutes", '
            '"30 CPU minutes" or "4 hours".'
        )
    unit = {"s": 1, "m": 60, "h": 3600}[match["unit"][0].lower()]
    return float(match["number"]) * unit, bool(match["cpu"])


def parse_interval(value: str | int | float) -> tuple[float, str]:
    """The number and the unit, "epochs", "steps", "%" or "seconds", of an interval.

    Raises:
      UserError: `value` is neither a duration nor a wall-clock time.
    """
    match = _TIME_PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match and not match["cpu"]:
        return parse_time_budget(value)[0], "seconds"
    return parse_duration(value)
