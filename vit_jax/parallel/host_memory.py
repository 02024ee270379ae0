"""How the C library allocates memory on the host."""

import contextlib
import ctypes
import mmap
import os
import pathlib
import platform
import re
from collections.abc import Iterator
from importlib import metadata, util

# Constants of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8

# Sizes, as powers of two, of the blocks with which `compiling` fills gaps: from the
# largest that a compiler leaves to the smallest that takes time to search.
_GAP_EXPONENTS = range(27, 10, -1)

# Whether `keep_freed_memory` has had an effect, and the blocks that fill gaps.
_keeps = False
_fillings: list[int] = []


def keep_freed_memory() -> None:
    """Makes this process keep the memory that it frees, if a CPU does the training.

    XLA allocates its scratch memory in every step. glibc returns blocks of that size to
    the system, which then has to clear each page again: with batches of 128, this is a
    fifth of the step of ViT-Tiny and a tenth of ResNet-18's (experiments/benchmarks).
    All threads share one arena, because the others cannot hold blocks above 64 MB. It
    must be called before this process starts a thread, which would get an arena of its
    own, where JAX's threads would then allocate as well.

    It does nothing with another C library, nor where JAX could use an accelerator,
    which has memory of its own.
    """
    global _keeps
    if platform.libc_ver()[0] != "glibc" or _has_accelerator():
        return
    _keeps = True
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)


def return_freed_memory() -> None:
    """Returns the memory that `keep_freed_memory` keeps to the system."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def free_bytes() -> int | None:
    """Memory in bytes that this process may still take on the host; None if unknown.

    It is what Linux has available, or less where a container, or a job of a cluster,
    has a limit of its own.
    """
    return_freed_memory()
    try:
        text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:  # no Linux
        return None
    found = re.search(r"MemAvailable: *(\d+) kB", text)
    known = [int(found[1]) * 1024] if found else []
    return min(known + free_by_limits(), default=None)


def free_by_limits(
    groups: str | os.PathLike = "/proc/self/cgroup",
    root: str | os.PathLike = "/sys/fs/cgroup",
) -> list[int]:
    """What each memory limit on this process leaves, in bytes.

    The limits are those of its control group and of the groups around it. Cached files
    do not count, since the kernel drops them before it ends a process.

    Args:
      groups: the file in which Linux names the process's groups.
      root: the folder below which the groups of version 2 lie, and in its folder
        "memory" those of version 1.
    """
    try:
        lines = pathlib.Path(groups).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            top = pathlib.Path(root, "memory")
            names = "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached = r"^total_(?:in)?active_file (\d+)$"
        elif not controllers:
            top, names = pathlib.Path(root), ("memory.max", "memory.current")
            cached = r"^(?:in)?active_file (\d+)$"
        else:
            continue
        group = top / path.strip("/")
        # A container sees its own group as the top, under whatever path.
        for folder in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError):  # no limit: "max"
                limit, used = (int((folder / name).read_text()) for name in names)
                stat = (folder / "memory.stat").read_text()
                dropped = sum(map(int, re.findall(cached, stat, re.MULTILINE)))
                left.append(limit - used + dropped)
            if folder == top:
                break
    return left


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """A context for compilation, which leaves no gaps for the steps to search.

    A compiler frees tens of thousands of blocks of different sizes between others that
    it still uses, and malloc looks through lists of them in each allocation: a step of
    `vit_laptop.py` would take 1.2 times as long (experiments/benchmarks). After the
    context the gaps are therefore in use, until the next such context.

    It does nothing where `keep_freed_memory` has done nothing.
    """
    if not _keeps:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes, libc.sbrk.restype = [ctypes.c_void_p], ctypes.c_void_p
    while _fillings:
        libc.free(_fillings.pop())
    yield
    # This also gives the pages within gaps back to the system, and all memory at the
    # end of the heap, so that a block which begins there was in no gap.
    libc.malloc_trim(0)
    end = libc.sbrk(0) - 2 * mmap.PAGESIZE
    for exponent in _GAP_EXPONENTS:
        while (block := libc.malloc(2**exponent)) and block < end:
            _fillings.append(block)
        libc.free(block)


def _has_accelerator() -> bool:
    # This looks where JAX finds backends other than the CPU's, but starts none.
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    return bool(
        metadata.entry_points(group="jax_plugins")
        or util.find_spec("jax_plugins")
        or util.find_spec("libtpu")
    )
