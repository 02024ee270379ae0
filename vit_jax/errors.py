"""Exceptions with messages for people, such as that for mistakes of the user."""

import difflib
from collections.abc import Iterable


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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' (did you mean "x"?)' for the most similar of `known`, or '' if none is.

    A dotted name is also found by its last part: "model.depth" by "depth".
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    close = close or [x for x in known if x.split(".")[-1] == name.split(".")[-1]]
    return f' (did you mean "{close[0]}"?)' if close else ""
