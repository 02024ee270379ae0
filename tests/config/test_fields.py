"""Each kind of setting accepts, converts and refuses values."""

import math

import pytest

from vit_jax.config import fields

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    "field, good, bad",
    [
        (fields.integer(1, ""), {0: 0, 5.0: 5}, [-1, 0.5, True, None, "5"]),
        (fields.integer(1, "", 2, 4, optional=True), {2: 2, None: None}, [1, 5]),
        (fields.number(1.0, ""), {0: 0.0, 2: 2.0}, [-0.1, NAN, INF, True, "1", None]),
        (fields.number(None, "", -INF, optional=True), {-9: -9.0, None: None}, [-INF]),
        (fields.number(0.0, "", 0, 1, open_high=True), {0.99: 0.99}, [1, 1.5]),
        (fields.fraction(0.0, ""), {0: 0.0, 1: 1.0}, [1.01, -0.01]),
        (fields.fraction(0.0, "", below_one=True), {0.5: 0.5}, [1.0]),
        (fields.choice((None, "a"), ""), {None: None, "a": "a"}, ["b", 0]),
        (fields.switch(True, ""), {True: True, False: False}, [1, 0, "True", None]),
        (fields.switch(None, "", optional=True), {None: None}, [0]),
        (fields.text("", ""), {"x": "x"}, [None, 1]),
        (fields.texts((), ""), {"a": ("a",), "": (), ("a", "b"): ("a", "b")}, [1]),
        (fields.duration("1 epoch", ""), {"5%": "5%", 3: 3}, ["5 weeks", None, "-1"]),
        (fields.numbers(None, ""), {None: None, (1, 2): (1.0, 2.0)}, [(), "1", (NAN,)]),
        (fields.numbers(None, "", above=0), {(0.5,): (0.5,)}, [(0,), (1, -1)]),
        (fields.span((1, 2), "", 3), {(1, 3): (1.0, 3.0)}, [(2, 1), (0, 1), (1, 4)]),
        (fields.integers(None, ""), {(): (), (8.0, 2): (8, 2)}, [(0,), (1.5,), "8"]),
    ],
)  # fmt: skip
def test_values(field, good, bad):
    for value, converted in good.items():
        found = field.convert(value)
        assert (found, type(found)) == (converted, type(converted))
    for value in bad:
        with pytest.raises((ValueError, TypeError)):
            field.convert(value)


@pytest.mark.parametrize(
    "field, allowed",
    [
        (fields.integer(1, "", 1), "a whole number of at least 1"),
        (fields.integer(1, "", 0, 30, optional=True), "a whole number from 0 to 30 or"),
        (fields.fraction(0, "", below_one=True), "a number from 0 to 1 (not included)"),
        (fields.number(0, "", -INF), "a finite number"),
        (fields.choice(("a", "b"), ""), "one of a, b"),
        (fields.span((1, 2), "", 3), "two numbers above 0 and at most 3"),
        (fields.numbers(None, "", above=0), "None or a list of numbers above 0"),
    ],
)
def test_what_is_allowed_is_said_in_words(field, allowed):
    assert field.allowed.startswith(allowed)
