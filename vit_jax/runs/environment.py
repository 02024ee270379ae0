"""The software and hardware that a run was trained with."""

import importlib.metadata
import os
import pathlib
import platform
import sys
import time
from typing import Any

import jax

import vit_jax

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def cpu_model() -> str:
    """Name of the processor; '' where the system does not tell."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return next(names, platform.processor()).strip()


def describe_environment() -> dict[str, Any]:
    """Versions, devices, command and time of this process."""
    devices = jax.devices()
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": sys.orig_argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "cpu": cpu_model(),
        "num_cpus": os.cpu_count(),
        "device": devices[0].device_kind,
        "num_devices": len(devices),
        "num_processes": jax.process_count(),
        "vit_jax": vit_jax.__version__,
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }
