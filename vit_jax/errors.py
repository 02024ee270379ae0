"""Exceptions whose messages are for users, and parts of such messages."""

import difflib
import re
import traceback
from collections.abc import Iterable, Sequence
from typing import Any


class PlainError(Exception):
    """An exception that notebooks show as its message alone, without a traceback."""

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
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # an integer of more than 4,300 digits
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= 200 else f"{text[:100]}…{text[-100:]}"


def one_line(error: BaseException) -> str:
    """The type and the message of an exception of others, for a message."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else f"{text[:300]}…"


def user_line(error: Exception) -> str:
    """File and line of the innermost code outside of libraries that raised `error`."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename]
    frame = (own or frames)[-1]
    return f"{frame.filename}, line {frame.lineno}"


def user_code_fails(what: str, error: Exception) -> UserError:
    """What to raise for an error in a user's own code: `what` fails in its line."""
    if isinstance(error, UserError):
        return error
    return UserError(
        f"{what} fails in {user_line(error)} ({one_line(error)}); correct it."
    )


# All but tab, line feed, carriage return and backspace, which progress bars use.
_CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with control codes and undecodable bytes escaped, as "\\x1b".

    The name of a file or a class may hold codes that a terminal would obey, and bytes
    that are no UTF-8.
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def shorten(names: Sequence[str], most: int) -> str:
    """The first `most` names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def require_known(name: str, known: Iterable[str], what: str, where: str) -> None:
    """Refuses a name that is not one of `known`.

    Raises:
      UserError: "There is no WHAT NAME (did you mean ...?); WHERE one of A, B."
    """
    if name not in known:
        raise UserError(
            f"There is no {what} {show(name)}{did_you_mean(name, known)}; {where} one "
            f"of {', '.join(known)}."
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' (did you mean "x"?)' for the most similar of `known`, or '' if none is.

    A dotted name is also found by its last part: "model.depth" by "depth".
    """
    name, known = name[:200], list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    close = close or [x for x in known if x.split(".")[-1] == name.split(".")[-1]]
    return f' (did you mean "{close[0]}"?)' if close else ""
