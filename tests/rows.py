"""Rows of parametrized tests."""

import functools

import pytest

# A row that only `pytest --full` runs.
slow = functools.partial(pytest.param, marks=pytest.mark.slow)
