"""The package's folders; everything else stands in setup.cfg.

The configs lie beside the package, where a reader of the repository looks for them, and
are installed inside it, so that a command finds them by name from any folder.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["vit_jax*"]), "vit_jax.configs"],
    package_dir={"vit_jax.configs": "configs"},
)
