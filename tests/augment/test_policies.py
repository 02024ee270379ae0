"""RandAugment, TrivialAugmentWide and AutoAugment draw what torchvision draws.

Each test lists all that a policy may make of one image, with Pillow, and how likely
each is; every image that the policy makes must be listed, as often as expected.
"""

import collections
import functools
import itertools

import jax
import numpy as np
import pytest
from PIL import Image
from scipy import stats

from tests.augment.pillow import with_pillow
from vit_jax.augment import policies

NUM_DRAWS = 8192
SIGNED = {
    "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "color",
    "contrast", "sharpness",
}  # fmt: skip


@pytest.fixture(scope="module")
def image():
    """A bright disc on a tinted ramp, which every operation changes."""
    y, x = np.indices((32, 32))
    disc = 60 * ((x - 12) ** 2 + (y - 18) ** 2 < 80)
    noise = np.random.default_rng(0).integers(20, size=(32, 32))
    planes = [40 + 3 * x + disc + noise, 30 + 4 * y + disc, 90 + x + y - disc // 2]
    return np.stack(planes, -1).astype(np.uint8)


def signs(name):
    return (1, -1) if name in SIGNED else (1,)


def branches(name, magnitude, probability=1.0):
    """[(probability, name, magnitude)] of one operation and its sign."""
    return [
        (probability / len(signs(name)), name, sign * float(magnitude))
        for sign in signs(name)
    ]


def outcomes(image, steps):
    """{image bytes: probability} after these steps, lists of (probability, ...)."""
    images = {Image.fromarray(image).tobytes(): 1.0}
    for step in steps:
        after = collections.Counter()
        for (data, p), (q, name, x) in itertools.product(images.items(), step):
            before = Image.frombytes("RGB", (32, 32), data)
            after[with_pillow(before, name, x).tobytes()] += p * q
        images = after
    return images


def check_draws(policy, image, expected):
    """One by one, since under vmap each image takes every kind of operation.

    What is drawn is the same under vmap, as the augmentation of a batch has it.
    """
    keys = jax.random.split(jax.random.key(1), NUM_DRAWS)
    one_by_one = jax.jit(lambda ks, x: jax.lax.map(lambda key: policy(key, x), ks))
    drawn = np.asarray(one_by_one(keys, image))
    some = jax.jit(jax.vmap(policy, (0, None)))(keys[:128], image)
    np.testing.assert_array_equal(some, drawn[:128])
    counts = collections.Counter(made.tobytes() for made in drawn)
    assert counts.keys() <= expected.keys()
    assert sum(expected.values()) == pytest.approx(1)
    rare = {data for data, p in expected.items() if p * NUM_DRAWS < 5}
    frequent = sorted(expected.keys() - rare)
    found = [counts[data] for data in frequent]
    wanted = [NUM_DRAWS * expected[data] for data in frequent]
    found.append(NUM_DRAWS - sum(found))
    wanted.append(NUM_DRAWS - sum(wanted))
    if not rare:
        found.pop(), wanted.pop()
    assert stats.chisquare(found, wanted).pvalue > 1e-3


def standard_magnitudes(num_bins):
    return policies.magnitudes(
        num_bins, shear=0.3, translate_x=150 / 331 * 32, translate_y=150 / 331 * 32,
        rotate=30, enhance=0.9, posterize=4,
    )  # fmt: skip


@pytest.mark.slow
def test_randaugment(image):
    num_ops, magnitude = 2, 9
    space = standard_magnitudes(31)
    step = [
        branch
        for name, bins in space.items()
        for branch in branches(name, bins[magnitude], 1 / 14)
    ]
    policy = functools.partial(
        policies.randaugment, num_ops=num_ops, magnitude=magnitude
    )
    check_draws(policy, image, outcomes(image, [step] * num_ops))


@pytest.mark.slow
def test_trivialaugment(image):
    space = policies.magnitudes(
        31, shear=0.99, translate_x=32, translate_y=32, rotate=135, enhance=0.99,
        posterize=6,
    )  # fmt: skip
    step = [
        branch
        for name, bins in space.items()
        for magnitude in bins
        for branch in branches(name, magnitude, 1 / 14 / 31)
    ]
    check_draws(policies.trivialaugment, image, outcomes(image, [step]))


@pytest.mark.slow
def test_autoaugment(image):
    space = standard_magnitudes(10) | {"invert": np.zeros(10)}
    expected = collections.Counter()
    for pair in policies.AUTOAUGMENT_CIFAR10:
        steps = [
            [*branches(name, space[name][number], p), (1 - p, "identity", 0.0)]
            for name, p, number in pair
        ]
        for data, probability in outcomes(image, steps).items():
            expected[data] += probability / 25
    expected = {data: p for data, p in expected.items() if p}
    check_draws(policies.autoaugment, image, expected)


def test_autoaugment_table_adds_up():
    """The sums are those of torchvision's table; a typing error would change them."""
    steps = [step for pair in policies.AUTOAUGMENT_CIFAR10 for step in pair]
    assert len(steps) == 50
    assert sum(p for _, p, _ in steps) == pytest.approx(26.5)
    assert sum(number for _, _, number in steps) == 187


def test_magnitudes_are_torchs():
    """The values are those of torch 2.13's linspace; NumPy's rounds differently."""
    space = policies.magnitudes(
        31, shear=0.3, translate_x=32, translate_y=150 / 331 * 32, rotate=135,
        enhance=0.9, posterize=6,
    )  # fmt: skip
    found = [float(x) for x in space["color"][[3, 5, 6]]]
    assert found == [0.08999999612569809, 0.14999999105930328, 0.17999999225139618]
    found = [float(x) for x in space["translate_x"][[3, 6, 7]]]
    assert found == [3.200000286102295, 6.40000057220459, 7.466667175292969]
    kept_bits = 3 * [8] + 5 * [7] + 5 * [6] + 5 * [5] + 5 * [4] + 5 * [3] + 3 * [2]
    assert list(space["posterize"]) == kept_bits
    assert [int(x) for x in space["translate_y"][::6]] == [0, 2, 5, 8, 11, 14]
    assert list(standard_magnitudes(10)["solarize"][[0, 3, 6, 9]]) == [255, 170, 85, 0]
