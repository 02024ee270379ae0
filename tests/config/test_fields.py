"""Each kind of setting accepts, converts and refuses values."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_jax.config import default_config, fields, make_config
from vit_jax.config.command_line import apply_overrides
from vit_jax.config.settings import FIELDS
from vit_jax.errors import UserError

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    "field, good, bad",
    [
        (fields.integer(1, ""), {0: 0, 5.0: 5}, [-1, 0.5, True, None, "5"]),
        (fields.integer(None, "", 2, 4), {2: 2, None: None}, [1, 5]),
        (fields.number(1.0, ""), {0: 0.0, 2: 2.0}, [-0.1, NAN, INF, True, "1", None]),
        (fields.number(None, "", -INF), {-9: -9.0, None: None}, [-INF]),
        (fields.number(0.0, "", 0, 1, open_high=True), {0.99: 0.99}, [1, 1.5]),
        (fields.fraction(0.0, ""), {0: 0.0, 1: 1.0}, [1.01, -0.01]),
        (fields.fraction(0.0, "", below_one=True), {0.5: 0.5}, [1.0]),
        (fields.choice(("a", "b"), ""), {"a": "a", "b": "b"}, ["c", 0, None]),
        (fields.switch(True, ""), {True: True, False: False}, [1, 0, "True", None]),
        (fields.switch(None, ""), {None: None}, [0]),
        (fields.choice(("a",), "", optional=True), {None: None, "a": "a"}, ["b"]),
        (fields.text("", ""), {"x": "x"}, [None, 1]),
        (fields.texts((), ""), {"a": ("a",), "": (), ("a", "b"): ("a", "b")}, [1]),
        (fields.duration("1 epoch", ""), {"5%": "5%", 3: 3}, ["5 weeks", None, "-1"]),
        (fields.duration("5%", "", above_zero=True), {"1 step": "1 step"}, ["0%", 0]),
        (fields.interval("5%", ""), {"1 hour": "1 hour", 3: 3}, ["0 steps", 0]),
        (fields.numbers(None, ""), {None: None, (1, 2): (1.0, 2.0)}, [(), "1", (NAN,)]),
        (fields.numbers(None, ""), {(0.5,): (0.5,)}, [(0,), (1, -1)]),
        (fields.numbers(None, "", 1, with_zero=True), {(0, 1): (0.0, 1.0)},
         [(), (1.01,), (-0.1, 0)]),
        (fields.numbers(None, "", 1), {(0.5,): (0.5,)}, [(0,), (0, 1), (1.01,)]),
        (fields.span((1, 2), "", 3), {(1, 3): (1.0, 3.0)}, [(2, 1), (0, 1), (1, 4)]),
        (fields.time_budget(""), {"15 minutes": "15 minutes", None: None},
         ["5 epochs", "0 minutes", "-1 hour", 5, "CPU hours"]),
        (fields.integers(None, ""), {(): (), (8.0, 2): (8, 2)}, [(0,), (1.5,), "8"]),
        (fields.integers(None, "", 2), {(8, 2): (8, 2)}, [(), (8,), (8, 2, 1)]),
    ],
)  # fmt: skip
def test_values(field, good, bad):
    for value, converted in good.items():
        found = field.convert(value)
        assert (found, type(found)) == (converted, type(converted))
    for value in bad:
        with pytest.raises((ValueError, TypeError, UserError)):
            field.convert(value)


# Sizes, signs and kinds at which programs break, besides what Hypothesis draws.
ODD = [
    math.nan, math.inf, -math.inf, -0.0, 1e308, 1e39, 1e-320, -1, 2**31, 2**32, 2**63,
    10**12, 10**400, "9" * 5000, "nan", "1e999 epochs", f"{'9' * 400} steps", "5%%",
    "", "\0", "\udcff", "a" * 10**6, b"5", True, None, [], {}, (1,) * 10**5, [None],
    [[[]]], {"a": {}}, object(), 1j, range(3), float, [math.nan, 1], (1e-320, 1e39),
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(ODD), st.integers(), st.floats(), st.text(), st.binary(),
    st.booleans(), st.lists(st.floats() | st.integers() | st.text(), max_size=3),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(FIELDS)), VALUES)
def test_a_value_is_taken_or_refused_in_one_sentence(key, value):
    config = default_config()
    try:
        config[key] = value
    except UserError as error:
        assert key.split(".")[0] in str(error) and len(str(error)) < 1500
        assert "\n" not in str(error)
        return
    again = make_config(config.to_dict())
    assert again == config


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_an_override_is_taken_or_refused(key, text):
    for name in (key, "seed", "num_epochs", "data.mean"):
        try:
            apply_overrides(default_config(), [f"--config.{name}={text}"])
        except UserError as error:
            assert len(str(error)) < 1500


ABSURD = [
    ("seed", 2**63), ("num_epochs", 1e39), ("model.depth", 1e308),
    ("mae.decoder_depth", 201), ("optim.learning_rate", 1e39), ("data.std", [1e-320]),
    ("batch_size", 10**12), ("eval_batch_size", 10**12),
    ("augment.crop_padding_pixels", 10**9),
    ("eval_every", f"{'9' * 400} steps"), ("eval_every", 10**400),
    ("model.width", 10**5000), ("data.dir", "a\0b"), ("data.mean", "5" * 10**6),
    ("stages", "9" * 5000), ("optim", "9" * 5000),
]  # fmt: skip


def test_absurd_values_are_refused():
    for key, value in ABSURD:
        with pytest.raises(UserError, match=key.split(".")[0]) as refusal:
            default_config()[key] = value
        assert len(str(refusal.value)) < 1500
