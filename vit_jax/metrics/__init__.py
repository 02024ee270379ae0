"""Numbers from a model's outputs: NumPy, SciPy and scikit-learn, never JAX."""
