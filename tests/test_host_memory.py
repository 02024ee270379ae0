"""What a step on a CPU needs again and again stays with the process."""

import subprocess
import sys

_PROGRAM = """
import ctypes, resource, sys, threading
from vit_jax.host_memory import keep_freed_memory

kept = sys.argv[1] == "keep" and keep_freed_memory()
libc, size = ctypes.CDLL(None), 200 * 2**20
libc.malloc.restype = ctypes.c_void_p

def use():
    block = libc.malloc(ctypes.c_size_t(size))
    libc.memset(ctypes.c_void_p(block), 1, ctypes.c_size_t(size))
    libc.free(ctypes.c_void_p(block))

def faults():
    # Not the main thread, as with XLA.
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(kept, faults(), faults())
"""


def run_program(argument):
    """(kept, page faults of the first and of the second use of 200 MiB)."""
    command = [sys.executable, "-c", _PROGRAM, argument]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kept, first, second = printed.split()
    return kept == "True", int(first), int(second)


def test_freed_memory_is_used_again():
    kept, first, second = run_program("keep")
    if kept:
        assert second < first / 10
    # Otherwise every page is new again, or the setting would not be needed.
    _, first, second = run_program("plain")
    assert second > first / 2
