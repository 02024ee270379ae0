"""Implementations for a CPU that are faster there than XLA's own."""
