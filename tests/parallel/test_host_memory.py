"""A process on a CPU keeps freed memory for its next step."""

import os
import platform
import sys

import pytest

from tests.parallel.running import run_code

_PROGRAM = """
import ctypes, resource, sys, threading
from vit_jax.parallel.commands import run_command
from vit_jax.parallel.host_memory import return_freed_memory

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

def main(_):
    counts = [faults(), faults()]
    return_freed_memory()
    print(*counts, faults())

if sys.argv[1] == "command":
    run_command(main)
main(None)
"""


def count_faults(argument, **variables):
    """Page faults of three uses of 200 MiB; before the third, all was returned."""
    environment = os.environ | variables
    printed = run_code(_PROGRAM, argument, check=True, env=environment).stdout
    return [int(number) for number in printed.split()]


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_command_uses_freed_memory_again(tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    first, second, third = count_faults("command", **cache)
    assert second < first / 10 and third > first / 2
    # Without the setting every page is new again, so the setting is needed.
    first, second, _ = count_faults("plain", **cache)
    assert second > first / 2


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_not_where_there_may_be_an_accelerator(tmp_path):
    (tmp_path / "libtpu").mkdir()
    (tmp_path / "libtpu" / "__init__.py").touch()
    first, second, _ = count_faults(
        "command",
        XDG_CACHE_HOME=str(tmp_path),
        JAX_PLATFORMS="",
        PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
    )
    assert second > first / 2
