"""How the C library hands out memory on the host."""

import ctypes
import os
import platform
from importlib import metadata, util

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def keep_freed_memory() -> bool:
    """Lets this process keep the memory it frees, where a CPU does the training.

    XLA asks for its scratch memory anew in every step. glibc returns blocks of that
    size to the system, which then has to clear each page again: in batches of 128, a
    fifth of ViT-Tiny's step and a tenth of ResNet-18's (experiments/benchmarks). One
    arena for all threads, since the others cannot hold blocks above 64 MB. Has to be
    called before JAX starts its threads.

    Returns:
      Whether it did; not with another C library, nor where JAX could use an
      accelerator, which has memory of its own.
    """
    if platform.libc_ver()[0] != "glibc" or _has_accelerator():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    options = {_M_ARENA_MAX: 1, _M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: -1}
    return all([mallopt(option, value) for option, value in options.items()])


def return_freed_memory() -> None:
    """Gives the system what `keep_freed_memory` kept, so that it counts as free."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def _has_accelerator() -> bool:
    # Without starting JAX's backends: where it would look for another than the CPU's.
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    return bool(
        metadata.entry_points(group="jax_plugins")
        or util.find_spec("jax_plugins")
        or util.find_spec("libtpu")
    )
