"""Numbers from a model's outputs: NumPy, SciPy and scikit-learn, never JAX.

Imports `vit_jax.errors` only, and never JAX.
"""
