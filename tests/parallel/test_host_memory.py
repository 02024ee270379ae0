"""A process on a CPU keeps freed memory for its next step."""

import os
import platform
import sys

import pytest

from tests.parallel.running import run_code

_PROGRAM = """
import ctypes, resource, sys, threading

sys.argv[0] = sys.argv[1]
import vit_jax
import sklearn  # its libraries start threads
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

counts = [faults() for _ in range(4)]
return_freed_memory()
print(*counts, faults())
"""


def count_faults(program, **variables):
    """Page faults of five uses of 200 MiB; before the last, all was returned."""
    environment = os.environ | variables
    printed = run_code(_PROGRAM, program, check=True, env=environment).stdout
    return [int(number) for number in printed.split()]


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_command_uses_freed_memory_again():
    first, *again, after_return = count_faults("vit-jax-train", JAX_PLATFORMS="cpu")
    assert max(again) < first / 10 and after_return > first / 2
    # Without the setting every page is new again, so the setting is needed.
    first, *again, _ = count_faults("notebook", JAX_PLATFORMS="cpu")
    assert max(again) > first / 2


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_not_where_there_may_be_an_accelerator(tmp_path):
    (tmp_path / "libtpu").mkdir()
    (tmp_path / "libtpu" / "__init__.py").touch()
    first, *again, _ = count_faults(
        "vit-jax-train",
        JAX_PLATFORMS="",
        PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
    )
    assert max(again) > first / 2


def test_experiments_are_commands_as_well():
    import_them = "import sys; sys.argv[0] = '-m'; import experiments; "
    seen = "print([name for name in ('vit_jax', 'numpy') if name in sys.modules])"
    printed = run_code(import_them + seen, check=True).stdout
    assert printed.strip() == "['vit_jax']"
