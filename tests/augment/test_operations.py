"""Operations as rows of numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from tests.augment.pillow import with_pillow
from vit_jax.augment.operations import apply_rows, make_operation, make_table

ROWS = [
    ("identity", 0.0), ("shear_x", -0.3), ("shear_y", 0.2), ("translate_x", 2.9),
    ("translate_y", -3.9), ("rotate", 30.0), ("brightness", -0.5), ("color", 0.9),
    ("contrast", 0.3), ("sharpness", -0.9), ("posterize", 3.0), ("solarize", 99.5),
    ("autocontrast", 0.0), ("equalize", 0.0), ("invert", 0.0),
]  # fmt: skip


def test_magnitudes_become_numbers():
    table = make_table(ROWS, height=16, width=16)
    assert table.kind.shape == table.amount.shape == (15,)
    assert table.matrix.shape == (15, 6)
    # Geometric operations are all one kind, and every other operation is its own.
    assert np.unique(table.kind).size == 10 and (table.kind[:6] == table.kind[0]).all()
    amounts = dict(zip((name for name, _ in ROWS), table.amount, strict=True))
    factors = [amounts[n] for n in ("brightness", "color", "contrast", "sharpness")]
    np.testing.assert_allclose(factors, [0.5, 1.9, 1.3, 0.1], rtol=1e-6)
    assert (amounts["posterize"], amounts["solarize"]) == (3, 99.5)
    for name, whole in (("translate_x", 2), ("translate_y", -3)):
        matrix = make_operation(name, float(whole), height=16, width=16).matrix
        row = [known for known, _ in ROWS].index(name)
        np.testing.assert_array_equal(table.matrix[row], matrix)


@pytest.mark.slow
def test_rows_are_applied_one_after_another():
    image = np.random.default_rng(0).integers(256, size=(16, 16, 3), dtype=np.uint8)
    table = make_table(ROWS, height=16, width=16)
    given = jnp.asarray(image)
    apply = jax.jit(lambda rows: apply_rows(given, table=table, rows=rows))
    for first in range(len(ROWS)):
        second = (first + 7) % len(ROWS)
        expected = Image.fromarray(image)
        for row in (first, second):
            expected = with_pillow(expected, *ROWS[row])
        found = apply(np.array([first, second]))
        np.testing.assert_array_equal(found, np.asarray(expected), ROWS[first][0])
