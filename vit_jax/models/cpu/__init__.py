"""Implementations for a CPU that are faster there than XLA's own.

products.py      matrix products
convolution.py   convolutions; winograd.py: those of 3x3 with fewer multiplications

`backend.py` decides where they are used. Imports nothing else of `vit_jax`.
"""
