"""The measurements and studies of this repository, one command each: see README.md."""

# First of all imports, because it prepares the process of a command.
import vit_jax  # noqa: F401
