"""Exceptions with messages for people, such as that for mistakes of the user."""

import difflib
from collections.abc import Iterable
from typing import Any


class PlainError(Exception):
    """An exception whose message says all; notebooks show it without a traceback."""

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this method and prints its lines.
        return [f"{type(self).__name__}: {self}"]


class UserError(PlainError):
    """A problem with a command, config, file or machine that its user can correct.

    The message is one sentence that says what was wrong, what was expected and what
    to do. The commands print it without a traceback and exit with status 1.
    """


def show(value: Any) -> str:
    """`repr(value)` for a message, which is at most some 200 characters long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of more than 4,300 digits
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= 200 else f"{text[:100]}…{text[-100:]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' (did you mean "x"?)' for the most similar of `known`, or '' if none is.

    A dotted name is also found by its last part: "model.depth" by "depth".
    """
    name, known = name[:200], list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    close = close or [x for x in known if x.split(".")[-1] == name.split(".")[-1]]
    return f' (did you mean "{close[0]}"?)' if close else ""
