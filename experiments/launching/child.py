"""Runs a command and asks it to stop when its launcher ends, however that ends.

python experiments/launching/child.py PROCESS_ID_OF_LAUNCHER COMMAND...

The kernel's signal may come several times, as the launcher's threads end one by one,
but a training that is signalled twice ends without saving. So this process stands
between the two and signals the training once. Only Linux has that signal; elsewhere the
launcher itself has to send SIGTERM.
"""

import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_POLL_SECONDS = 0.1


def main(launcher: str, *command: str) -> int:
    """Returns the command's exit status, 128 + signal where a signal ended it."""
    received = []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    # Ctrl-C reaches all processes of a terminal, so the command answers for itself.
    signal.signal(signal.SIGINT, lambda *_: None)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The launcher may have ended before the kernel was asked.
        if os.getppid() != int(launcher):
            return 128 + signal.SIGTERM
    process, is_asked = subprocess.Popen(command), False
    while process.poll() is None:
        if received and not is_asked:
            process.terminate()
            is_asked = True
        try:
            process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    status = process.returncode
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
