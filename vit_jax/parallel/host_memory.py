"""How the C library allocates memory on the host."""

import ctypes
import os
import platform
from importlib import metadata, util

# Constants of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


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
    if platform.libc_ver()[0] != "glibc" or _has_accelerator():
        return
    mallopt = ctypes.CDLL(None).mallopt
    for option, value in (
        (_M_ARENA_MAX, 1),
        (_M_MMAP_MAX, 0),
        (_M_TRIM_THRESHOLD, -1),
    ):
        mallopt(option, value)


def return_freed_memory() -> None:
    """Returns the memory that `keep_freed_memory` keeps to the system."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def _has_accelerator() -> bool:
    # This looks where JAX finds backends other than the CPU's, but starts none.
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    return bool(
        metadata.entry_points(group="jax_plugins")
        or util.find_spec("jax_plugins")
        or util.find_spec("libtpu")
    )
