"""A process on a CPU keeps freed memory for its next step."""

import os
import platform
import sys

import pytest

from tests.parallel.running import run_code
from vit_jax.parallel import host_memory

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


_GAPS = """
import ctypes, sys

sys.argv[0] = sys.argv[1]
import vit_jax
from vit_jax.parallel import host_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def is_in_a_gap():
    block = libc.malloc(ctypes.c_size_t(8000))
    libc.free(block)
    return block in gaps

with host_memory.compiling():
    blocks = [libc.malloc(ctypes.c_size_t(8000 + i)) for i in range(2000)]
    gaps = range(min(blocks), max(blocks))
    for block in blocks[::2]:
        libc.free(block)
    print(is_in_a_gap())
print(is_in_a_gap())
with host_memory.compiling():
    print(is_in_a_gap())
print(is_in_a_gap())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_what_a_compiler_leaves_is_out_of_the_way_of_the_steps():
    def seen(program):
        environment = os.environ | {"JAX_PLATFORMS": "cpu"}
        return run_code(_GAPS, program, check=True, env=environment).stdout.split()

    assert seen("vit-jax-train") == ["True", "False", "True", "False"]
    assert seen("notebook") == 4 * ["True"]


def test_experiments_are_commands_as_well():
    import_them = "import sys; sys.argv[0] = '-m'; import experiments; "
    seen = "print([name for name in ('vit_jax', 'numpy') if name in sys.modules])"
    printed = run_code(import_them + seen, check=True).stdout
    assert printed.strip() == "['vit_jax']"


def write_group(folder, names, limit, used, cached):
    folder.mkdir(parents=True, exist_ok=True)
    prefix = "total_" if len(names[0]) > 12 else ""
    stat = f"cache 5\n{prefix}inactive_file {cached - 20}\n{prefix}active_file 20\n"
    for name, text in zip((*names, "memory.stat"), (limit, used, stat), strict=True):
        (folder / name).write_text(f"{text}\n")


def test_a_limit_of_a_container_or_of_a_group_around_it_counts(tmp_path):
    """The files have the form that Linux gives them in both versions."""
    groups, root = tmp_path / "cgroup", tmp_path / "fs"
    second = ("memory.max", "memory.current")
    write_group(root / "job" / "step", second, "max", 7, 21)
    write_group(root / "job", second, 1000, 700, 100)
    groups.write_text("0::/job/step\n")
    assert host_memory.free_by_limits(groups, root) == [400]
    # A container's group is the top, whatever it is called outside.
    first = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    write_group(root / "memory", first, 500, 300, 50)
    groups.write_text("4:cpuset:/\n3:memory:/docker/ab12\n")
    assert host_memory.free_by_limits(groups, root) == [250]
    assert host_memory.free_by_limits(tmp_path / "none", root) == []
