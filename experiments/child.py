"""Runs a command that is asked to stop when its launcher ends, however that ends.

python experiments/child.py PROCESS_ID_OF_LAUNCHER COMMAND...
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>; it outlives exec


def main(launcher: str, *command: str) -> None:
    """Becomes `command`; on Linux, with SIGTERM to come when the launcher ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(launcher):  # it ended before that was asked for
            sys.exit(128 + signal.SIGTERM)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
