"""Start and end of every command: arguments, error messages, exit status."""

import argparse
import contextlib
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence

from vit_jax.errors import UserError
from vit_jax.parallel import distributed
from vit_jax.parallel.compiled_programs import keep_compiled_programs
from vit_jax.parallel.host_memory import keep_freed_memory
from vit_jax.parallel.signals import Interrupted

SETTINGS_EPILOG = "Settings: --config.group.name=value, any number of them."


def make_parser(
    name: str, doc: str | None, epilog: str | None = None
) -> argparse.ArgumentParser:
    """A parser whose --help shows a module's docstring as it is written.

    Args:
      name: of the module, as after `python -m`.
      doc: its docstring.
      epilog: what --help says last.
    """
    script = os.path.basename(sys.argv[0])
    return argparse.ArgumentParser(
        prog=script if script.startswith("vit-jax-") else f"python -m {name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=epilog,
        allow_abbrev=False,  # A mistyped flag is an error.
    )


def _complain(text: str) -> None:
    # A closed standard error changes neither the work nor the exit status.
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def run_command(main: Callable[[Sequence[str]], int | None]) -> None:
    """Calls `main` with the command line's arguments and exits.

    Status 0, or what `main` returns; 1 after a user's mistake, which is printed as one
    sentence; 128 + signal after an interruption, as shells report it. Warnings are
    printed as sentences, too.
    """
    warnings.showwarning = lambda text, *_: _complain(f"warning: {text}")
    keep_compiled_programs()
    keep_freed_memory()
    try:
        status = main(sys.argv[1:]) or 0
        sys.stdout.flush()
    except UserError as error:
        _complain(f"error: {error}")
        status = 1
    except Interrupted as interruption:
        _complain(str(interruption))
        status = interruption.exit_status
    except KeyboardInterrupt:
        _complain("interrupted before there was anything to save")
        status = 130
    except BrokenPipeError:
        # Standard output is closed (`| head`), and Python would report that again when
        # it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except Exception:
        # Each of several processes has to end by itself after any exception: at
        # Python's own exit JAX would wait for the others.
        if not distributed.is_started():
            raise
        # If another process has died, `distributed` ends this one in the meantime.
        time.sleep(1)
        _complain(traceback.format_exc())
        status = 1
    distributed.leave(status)
    sys.exit(status)
