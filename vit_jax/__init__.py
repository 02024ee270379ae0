"""Vision Transformers against ResNets on CIFAR-10, in JAX and Flax."""

__version__ = "0.1.0"


def __getattr__(name: str):
    # Looked up on first use, so that `import vit_jax.data` does not pull in JAX.
    if name == "load_run":
        from vit_jax.runs.load import load_run

        return load_run
    raise AttributeError(f"module 'vit_jax' has no attribute {name!r}")
