"""The start and the end of every command: argument parser, messages, exit status."""

import argparse
import contextlib
import errno
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from vit_jax.errors import UserError, one_line
from vit_jax.files import is_full
from vit_jax.parallel import distributed
from vit_jax.parallel.compiled_programs import keep_compiled_programs
from vit_jax.parallel.signals import Interrupted, answer_signals
from vit_jax.parallel.streams import prepare_streams

SETTINGS_EPILOG = (
    "Any number of settings may follow as --config.group.name=value; `python -m "
    "vit_jax.main --helpfull` lists them all."
)

# Names of packages that are imported by another name.
_PACKAGES = {
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "tensorflow_datasets": "tensorflow-datasets",
    "tensorflow": "vit_jax[tfds]",
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports a mistake as every other one is: in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; `{self.prog} --help` shows what can be given.")


def make_parser(
    name: str, doc: str | None, epilog: str | None = None
) -> argparse.ArgumentParser:
    """A parser whose --help shows a module's docstring as it is written.

    `name` is that of the module, as after `python -m`, and `doc` its docstring.
    """
    script = os.path.basename(sys.argv[0])
    return _Parser(
        prog=script if script.startswith("vit-jax-") else f"python -m {name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=epilog,
        allow_abbrev=False,  # a misspelt flag is reported instead of guessed
    )


def announce(runs: str | Sequence[str]) -> None:
    """Says which runs are loaded, before JAX is: that takes seconds."""
    names = runs if isinstance(runs, str) else ", ".join(runs)
    with contextlib.suppress(OSError):
        _report(f"loading {names} ...")


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _sentence(error: Exception) -> str | None:
    """What its user can do about an error; None: it is a mistake in the program."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name not in ("", "vit_jax", "experiments"):
            return (
                f"The package {_PACKAGES.get(name, name)} is needed for this and not "
                "installed; install it with pip."
            )
    is_path = isinstance(error, OSError) and error.filename is not None
    if is_path and error.errno in (errno.EACCES, errno.ENAMETOOLONG):
        return (
            f"{error.filename} cannot be opened ({error.strerror}); give another path, "
            "or mend that."
        )
    if (reason := _why_no_device()) is not None:
        return (
            f"JAX cannot use the devices of JAX_PLATFORMS={os.environ['JAX_PLATFORMS']}"
            f" ({one_line(reason)}); unset that variable, or install what they need "
            "(for a GPU, its driver and the extra cuda12)."
        )
    if is_full(error):
        return f"A disk is full ({error}); make room and run the same command again."
    return None


def _why_no_device() -> Exception | None:
    """JAX's error where it does not find what JAX_PLATFORMS asks for, or None.

    JAX removes the frames from its errors by which they could be told from others.
    """
    if "jax" in sys.modules and os.environ.get("JAX_PLATFORMS"):
        try:
            sys.modules["jax"].local_devices()
        except (RuntimeError, AssertionError) as error:
            return error
    return None


def run_command(
    main: Callable[[Sequence[str]], int | None], *, keep_programs: bool = True
) -> None:
    """Calls `main` with the command line's arguments and exits.

    The exit status is 0 or what `main` returns, 1 after an error, or 128 + the signal's
    number after an interruption, as shells have it. What a user can do something about
    is printed as one sentence, and so are warnings. `keep_programs` asks for
    `keep_compiled_programs`.
    """
    prepare_streams()
    answer_signals()
    warnings.showwarning = lambda text, *_: _report(f"warning: {text}")
    if keep_programs:
        keep_compiled_programs()
    try:
        status = main(sys.argv[1:]) or 0
        sys.stdout.flush()
    except Interrupted as interruption:
        _report(str(interruption))
        status = interruption.exit_status
    except BrokenPipeError:
        status = 0  # the reader has ended (`| head`)
    except Exception as error:
        status, sentence = 1, _sentence(error)
        if sentence:
            _report(f"error: {sentence}")
        # After any exception, each of several processes has to leave by itself: at a
        # normal exit of Python, JAX would wait for the others.
        elif not distributed.is_started():
            raise
        else:
            # If another one has died, `distributed` ends this one during the wait.
            time.sleep(1)
            _report(traceback.format_exc())
    distributed.leave(status)
    sys.exit(status)
