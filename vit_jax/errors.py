"""The exception for mistakes that the user can correct."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
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
