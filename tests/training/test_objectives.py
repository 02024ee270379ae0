"""Objectives against formulas in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vit_jax.models import ResNet, ViT, init_variables
from vit_jax.training import objectives

SHAPE = (8, 8, 3)
RNG = np.random.default_rng(0)
STUDENT, TEACHER = RNG.normal(0, 2, (2, 6, 5))
TARGETS = RNG.dirichlet(np.ones(5), 6)


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def soft_by_hand(student, teacher, temperature):
    """Hinton et al., 2015: the KL divergence, written out."""
    p = np.exp(log_softmax(teacher / temperature))
    q = np.exp(log_softmax(student / temperature))
    return temperature**2 * (p * np.log(p / q)).sum(-1).mean()


def hard_by_hand(student, teacher):
    rows = np.arange(len(student))
    return -log_softmax(student)[rows, teacher.argmax(-1)].mean()


@pytest.mark.slow
def test_the_teachers_term_is_the_papers():
    for temperature in (1.0, 3.0):
        loss = objectives.teacher_loss(
            jnp.float32(STUDENT), jnp.float32(TEACHER),
            kind="soft", temperature=temperature,
        )  # fmt: skip
        expected = soft_by_hand(STUDENT, TEACHER, temperature)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
    loss = objectives.teacher_loss(
        jnp.float32(STUDENT), jnp.float32(TEACHER), kind="hard", temperature=9.0
    )
    np.testing.assert_allclose(loss, hard_by_hand(STUDENT, TEACHER), rtol=1e-5)


def moved(variables, seed):
    """Variables away from their initial values, so that nothing is 0 or 1."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda x: x + np.float32(0.3) * np.abs(rng.normal(size=x.shape)).astype("f4"),
        variables,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("token", "kind"), [(False, "soft"), (True, "hard")])
def test_distillation_is_the_sum_of_both_terms(token, kind):
    key = jax.random.key(0)
    student = ViT(5, width=8, depth=1, num_heads=2, distillation_token=token)
    teacher = ResNet(5, stage_sizes=(1,), width=4)
    variables = moved(init_variables(student, key, SHAPE), 0)
    theirs = moved(init_variables(teacher, key, SHAPE), 1)
    images = jnp.float32(RNG.normal(size=(6, *SHAPE)))

    @jax.jit
    def loss(variables, theirs):
        return objectives.distillation(
            variables, images, jnp.float32(TARGETS), key, theirs,
            model=student, label_smoothing=0.0, kind=kind, alpha=0.3, temperature=2.0,
            teacher_logits=functools.partial(teacher.apply, train=False),
        )  # fmt: skip

    value, (metrics, batch_stats) = loss(variables, theirs)
    apply = jax.jit(functools.partial(student.apply, mutable=["heads"]))
    logits, state = apply(variables, images)
    mine, from_teacher = (
        np.float64(state["heads"][name][0]) if token else np.float64(logits)
        for name in ("class", "distillation")
    )
    assert token == (np.abs(mine - from_teacher).max() > 0.01)
    # The teacher's BatchNorms have their running statistics, not the batch's.
    by_running = jax.jit(functools.partial(teacher.apply, train=False))
    seen = np.float64(by_running(theirs, images))
    by_teacher = {
        "hard": hard_by_hand(from_teacher, seen),
        "soft": soft_by_hand(from_teacher, seen, 2.0),
    }[kind]
    by_targets = -(TARGETS * log_softmax(mine)).sum(-1).mean()
    np.testing.assert_allclose(value, 0.7 * by_targets + 0.3 * by_teacher, rtol=1e-4)
    assert metrics["loss"] == value and batch_stats == {}
    hits = seen.argmax(-1) == TARGETS.argmax(-1)
    assert float(metrics["teacher_accuracy"]) == pytest.approx(hits.mean())
    hits = np.asarray(logits).argmax(-1) == TARGETS.argmax(-1)
    assert float(metrics["accuracy"]) == pytest.approx(hits.mean())

    gradients = jax.grad(lambda t: loss(variables, t)[0])(theirs)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(gradients))


VISIBLE = np.array([[0, 3], [5, 1]])


def test_loss_by_hand():
    logits = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    targets = jnp.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    loss, metrics = objectives.cross_entropy(logits, targets)
    assert float(loss) == pytest.approx((np.log(2) + np.log(10)) / 2)
    assert float(metrics["accuracy"]) == 0.5
    assert float(metrics["weighted_accuracy"]) == pytest.approx(0.5)


def test_accuracy_weighted_by_each_labels_fraction():
    # Lambda is 0.7 and 0.6; the model takes the larger and then the smaller part.
    mixed = jnp.array([[0.7, 0.3, 0.0], [0.4, 0.0, 0.6]])
    logits = jnp.array([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]])
    for smoothing in (0.0, 0.1):
        targets = (1 - smoothing) * mixed + smoothing / 3
        _, metrics = objectives.cross_entropy(logits, targets, smoothing)
        assert float(metrics["accuracy"]) == 0.5
        assert float(metrics["weighted_accuracy"]) == pytest.approx((0.7 + 0.4) / 2)


def reconstruction_by_hand(predicted, images, visible, size):
    """One image, one patch and one pixel at a time, in float64."""
    losses = []
    for prediction, image, seen in zip(predicted, images, visible, strict=True):
        columns = image.shape[1] // size
        errors = []
        for number in set(range(len(prediction))) - set(seen.tolist()):
            top, left = size * (number // columns), size * (number % columns)
            patch = np.float64(image[top : top + size, left : left + size])
            target = (patch - patch.mean()) / np.sqrt(patch.var() + 1e-6)
            errors.append(((prediction[number] - target.ravel()) ** 2).mean())
        losses.append(np.mean(errors))
    return losses


def test_reconstruction_losses_are_those_by_hand():
    rng = np.random.default_rng(0)
    images = np.float32(rng.normal(3, 2, (2, 8, 12, 3)))
    images[1, 4:, :4] = 1.0  # a patch of one color
    predicted = np.float32(rng.normal(size=(2, 6, 48)))
    losses = objectives.reconstruction_losses(
        *map(jnp.array, (predicted, images, VISIBLE)), 4
    )
    by_hand = reconstruction_by_hand(predicted, images, VISIBLE, 4)
    np.testing.assert_allclose(losses, by_hand, rtol=1e-5)
    # The mean of each patch is an error of 1 where the patch is not of one color.
    zeros = jnp.zeros((2, 6, 48))
    losses = objectives.reconstruction_losses(
        zeros, *map(jnp.array, (images, VISIBLE)), 4
    )
    np.testing.assert_allclose(losses, [1, 3 / 4], rtol=1e-5)


def test_class_weights_by_hand():
    logits = jnp.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    targets = jax.nn.one_hot(jnp.array([0, 0, 1]), 2)
    each = [np.log(1 + np.exp(-1)), np.log(2), np.log(2)]
    plain, metrics = objectives.cross_entropy(logits, targets)
    assert plain == pytest.approx(np.mean(each))
    weighted, same = objectives.cross_entropy(
        logits, targets, class_weights=(0.75, 1.5)
    )
    assert weighted == pytest.approx(np.mean(np.multiply(each, [0.75, 0.75, 1.5])))
    assert same["accuracy"] == metrics["accuracy"]


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_class_weights_keep_each_images_own_class_the_most_probable(label_smoothing):
    """96 images of one class and 4 of the other, which a model can tell apart."""
    labels = jnp.array([0, 1])
    smooth = optax.smooth_labels(jax.nn.one_hot(labels, 2), label_smoothing)
    counts, weights = jnp.array([96, 4]), (100 / (2 * 96), 100 / (2 * 4))

    def loss(logits):
        parts = [
            objectives.cross_entropy(
                logits[i, None], smooth[i, None], label_smoothing, weights
            )[0]
            for i in range(2)
        ]
        return counts @ jnp.stack(parts) / 100

    # The logits of the targets themselves are the least that any model can lose.
    best = jnp.log(jnp.maximum(smooth, 1e-6))
    np.testing.assert_allclose(jax.grad(loss)(best), 0, atol=1e-5)


def test_class_weights_of_a_mixed_image():
    targets = optax.smooth_labels(jnp.array([[0.7, 0.3]]), 0.2)
    plain, _ = objectives.cross_entropy(jnp.array([[1.0, 0.0]]), targets, 0.2)
    weighted, _ = objectives.cross_entropy(
        jnp.array([[1.0, 0.0]]), targets, 0.2, class_weights=(2.0, 5.0)
    )
    assert weighted == pytest.approx(float(plain) * (0.7 * 2 + 0.3 * 5), rel=1e-6)
