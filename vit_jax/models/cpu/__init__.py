"""Kernels for a CPU, faster there than what XLA makes of the definitions."""
