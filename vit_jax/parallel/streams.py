"""Standard streams that are closed, full or gone with their terminal."""

import io
import os
import sys

from vit_jax.errors import UserError, printable


class _Stream(io.FileIO):
    """A file descriptor that discards what is written to it after a first failure.

    What is lost on standard error is lost silently: it changes neither the work nor its
    exit status. On standard output it is the result of most commands.
    """

    def write(self, data) -> int:
        try:
            return super().write(data)
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            # Python, which flushes at exit, would report the failure once more.
            os.dup2(null, self.fileno())
            os.close(null)
            if self.fileno() == 2:
                return len(data)
            if isinstance(error, BrokenPipeError):
                raise
            raise UserError(
                f"Standard output cannot be written to ({error.strerror}); make room "
                "or give it another place."
            ) from None


class _Text(io.TextIOWrapper):
    """Text in which names cannot hide codes that a terminal obeys."""

    def write(self, text: str) -> int:
        return super().write(printable(text))


def prepare_streams() -> None:
    """Makes the standard streams usable whatever they are; called before all else.

    The number of a closed one would go to the next file that is opened, and what is
    printed would end up in there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
        stream = getattr(sys, name)
        if number > 0 and stream is getattr(sys, f"__{name}__"):
            setattr(
                sys,
                name,
                _Text(
                    io.BufferedWriter(_Stream(number, "w", closefd=False)),
                    encoding=getattr(stream, "encoding", "utf-8"),
                    errors="backslashreplace",
                    line_buffering=number == 2 or os.isatty(number),
                ),
            )
