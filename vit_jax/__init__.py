"""Vision Transformers against ResNets on CIFAR-10, in JAX and Flax.

load_config(name, overrides)   a config, by its name or file
train(config, workdir)         trains it, or resumes; returns the results
load_run(workdir)              the trained model: predict, features, variables
UserError                      what all of them raise for a mistake of their user
"""

import importlib
import os
import sys

__version__ = "0.1.0"

_PUBLIC = {
    "UserError": ("vit_jax.errors", "UserError"),
    "load_config": ("vit_jax.config.files", "load_config"),
    "load_run": ("vit_jax.runs.load", "load_run"),
    "train": ("vit_jax.training.train", "train_and_evaluate"),
}

__all__ = ["UserError", "load_config", "load_run", "train"]

_name = os.path.basename("".join(sys.argv[:1]))
# Python writes "-m" into sys.argv until it has found the module that it will run.
_is_ours = _name.startswith("vit-jax-") or (
    _name == "-m"
    and any(
        argument.removeprefix("-m").partition(".")[0] in ("vit_jax", "experiments")
        for argument in sys.orig_argv[1:]
    )
)
if _is_ours:
    # A command, `python -m vit_jax.NAME` or vit-jax-NAME, and no import by others:
    # Ctrl-C is answered in one line from here on, and no thread has started yet.
    from vit_jax.parallel import host_memory, signals, streams

    host_memory.keep_freed_memory()
    streams.prepare_streams()
    signals.answer_signals()


def __getattr__(name: str):
    # Looked up on first use, so that `import vit_jax.data` does not pull in JAX.
    if name not in _PUBLIC:
        raise AttributeError(f"module 'vit_jax' has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
