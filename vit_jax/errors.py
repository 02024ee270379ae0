"""The one exception that means "the user can mend this"."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in a command, a config, a file or a machine that its user can mend.

    The message is one sentence that says what was wrong, what was expected and what
    to do. The commands print it without a traceback and exit with status 1.
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' (did you mean "x"?)' for the closest of `known`, or '' if none is close.

    Of dotted names the last part is enough: "depth" is close to "model.depth".
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    close = close or [x for x in known if x.split(".")[-1] == name.split(".")[-1]]
    return f' (did you mean "{close[0]}"?)' if close else ""
