"""Attention, rollout, relevance, Grad-CAM and faithfulness, by hand and by run."""

import dataclasses
import functools
import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from vit_jax import models
from vit_jax.analysis import explain, run_data
from vit_jax.analysis import predict as analysis_predict
from vit_jax.config import default_config, set_value
from vit_jax.errors import UserError
from vit_jax.explain import main
from vit_jax.figures import style
from vit_jax.interpret import attention, faithfulness, gradcam, relevance
from vit_jax.interpret import weights as model_weights
from vit_jax.runs.load import Run, load_run

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(256, size=(3, 8, 8, 3), dtype=np.uint8)
CLASSES = np.array([1, 0, 3])


@functools.cache
def make_run(model=None, **settings):
    """A run of an untrained small model on 8x8 images of four classes."""
    config = default_config()
    set_value(config, "data.mean", (0.4, 0.5, 0.6))
    set_value(config, "data.std", (0.2, 0.3, 0.2))
    if model is None:
        small = {"patch_size": 4, "width": 16, "depth": 2, "num_heads": 2}
        model = models.ViT(num_classes=4, **(small | settings))
    variables = models.init_variables(model, jax.random.key(0), (8, 8, 3))
    # Far from the initial values, where attention is nearly even.
    leaves, tree = jax.tree.flatten(variables)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    leaves = [
        leaf + 0.3 * jnp.abs(jax.random.normal(key, leaf.shape))
        for key, leaf in zip(keys, leaves, strict=True)
    ]
    return Run(
        workdir=pathlib.Path("untrained"),
        config=config,
        model=model,
        variables=jax.tree.unflatten(tree, leaves),
        step=0,
        class_names=("a", "b", "c", "d"),
        image_shape=(8, 8, 3),
    )


def make_resnet_run():
    return make_run(models.ResNet(num_classes=4, stage_sizes=(1, 1), width=4))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["cls", "mean", "sequence"])
def test_asking_for_attention_changes_no_logit(pooling):
    run = make_run(pooling=pooling, num_registers=1)
    apply = jax.jit(functools.partial(run.model.apply, train=False))
    plain = apply(run.variables, run.normalize(IMAGES))
    seen = attention.read_attention(run, IMAGES)
    # Two programs, which may round differently in the last bits.
    np.testing.assert_allclose(seen.logits, plain, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(seen.weights.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.slow
def test_maps_start_from_what_the_head_sees():
    seen = attention.read_attention(make_run(pooling="cls", num_registers=1), IMAGES)
    assert seen.weights.shape == (3, 2, 2, 6, 6) and seen.grid == (2, 2)
    expected = seen.weights[..., 0, 1:5].reshape(3, 2, 2, 2, 2)
    np.testing.assert_allclose(seen.maps(), expected)

    seen = attention.read_attention(make_run(pooling="mean", num_registers=1), IMAGES)
    expected = seen.weights[..., :4, :4].mean(axis=-2).reshape(3, 2, 2, 2, 2)
    np.testing.assert_allclose(seen.maps(), expected, rtol=1e-5)

    seen = attention.read_attention(make_run(distillation_token=True), IMAGES)
    assert seen.weights.shape == (3, 2, 2, 6, 6) and seen.patches == slice(2, 6)
    expected = seen.weights[..., :2, 2:].mean(axis=-2).reshape(3, 2, 2, 2, 2)
    np.testing.assert_allclose(seen.maps(), expected, rtol=1e-5)

    run = make_run(pooling="sequence", final_norm=False)
    seen = attention.read_attention(run, IMAGES)
    np.testing.assert_allclose(seen.readout.sum(axis=1), 1, rtol=1e-5)
    assert np.ptp(seen.readout, axis=1).min() > 1e-3


def test_rollout_by_hand():
    first = [[0.5, 0.5, 0.0], [0.2, 0.6, 0.2], [0.0, 1.0, 0.0]]
    second = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]]
    weights = np.array([[first], [second]])
    # (A + I) / 2 of each block.
    low = np.array([[0.75, 0.25, 0], [0.1, 0.8, 0.1], [0, 0.5, 0.5]])
    high = np.array([[0.5, 0, 0.5], [0.5, 0.5, 0], [0.25, 0.125, 0.625]])
    np.testing.assert_allclose(attention.rollout(weights), high @ low)
    np.testing.assert_allclose(
        attention.rollout(weights, residual=False), np.array(second) @ first
    )
    # Without each query's smallest weight, and rows rescaled to 1.
    np.testing.assert_allclose(
        attention.rollout(weights[:1], discard_ratio=0.34, residual=False),
        [[0.5, 0.5, 0], [0, 0.75, 0.25], [0, 1, 0]],
    )


@pytest.mark.parametrize(
    "fusion, row",
    [("mean", [0.5, 0.5]), ("max", [0.9 / 1.8, 0.5]), ("min", [0.5, 0.5])],
)
def test_heads_are_fused(fusion, row):
    heads = np.array([[[[0.9, 0.1], [0.3, 0.7]], [[0.1, 0.9], [0.5, 0.5]]]])
    found = attention.rollout(heads, head_fusion=fusion, residual=False)
    np.testing.assert_allclose(found[0], row)
    by_hand = {"mean": [0.4, 0.6], "max": [5 / 12, 7 / 12], "min": [0.375, 0.625]}
    np.testing.assert_allclose(found[1], by_hand[fusion])


def test_mean_distance_by_hand():
    weights = np.zeros((1, 1, 1, 5, 5), np.float32)
    weights[..., 0] = 0.5  # The class token's half is left out.
    for query, key in ((1, 1), (2, 1), (3, 1), (4, 1)):
        weights[..., query, key] = 0.5
    seen = attention.Attention(
        weights, np.eye(1, 5, dtype=np.float32), np.zeros((1, 2), np.float32), (2, 2), 1
    )
    expected = (0 + 4 + 4 + 4 * 2**0.5) / 4
    np.testing.assert_allclose(
        attention.mean_distances(seen, 4), [[expected]], rtol=1e-6
    )
    even = dataclasses.replace(seen, weights=np.full_like(weights, 0.2))
    np.testing.assert_allclose(
        attention.mean_distances(even, 4),
        attention.patch_distances((2, 2), 4).mean(),
        rtol=1e-6,
    )


def test_relevance_by_hand():
    weights = np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])
    gradients = np.array([[[2.0, -1.0], [4.0, 0.0]], [[1.0, 5.0], [-2.0, 2.0]]])
    # Positive parts of the products: [[1, 0], [1, 0]] and [[1, 0], [0, 1]].
    found = relevance.propagate(weights[:, None], gradients[:, None])
    low = np.array([[2.0, 0], [1, 1]])
    np.testing.assert_allclose(found, 2 * low)
    one_block = relevance.propagate(weights[None], gradients[None])
    np.testing.assert_allclose(one_block, [[2, 0], [0.5, 1.5]])


@pytest.mark.slow
def test_gradients_by_attention_agree_with_the_chain_rule():
    """Through a parameter that acts on the attention weights alone."""
    run = make_run(depth=1, local_attention=True)
    images = run.normalize(IMAGES)

    def place(factors):
        variables = jax.tree.map(lambda x: x, run.variables)
        variables["params"]["block0"]["attention"]["inverse_temperature"] = factors
        return variables

    factors = run.variables["params"]["block0"]["attention"]["inverse_temperature"]

    def logits_and_weights(factors):
        logits, weights, _ = attention.forward_with_attention(
            place(factors), images, run.model
        )
        chosen = jnp.take_along_axis(logits, jnp.asarray(CLASSES)[:, None], axis=1)
        return chosen.sum(), weights

    direction = jnp.array([1.0, -0.5])
    (_, weights), (change, weights_change) = jax.jvp(
        logits_and_weights, (factors,), (direction,)
    )
    gradients = relevance.attention_gradients(
        run.variables, images, CLASSES, weights, run.model
    )
    assert abs(change) > 1e-4
    np.testing.assert_allclose((gradients * weights_change).sum(), change, rtol=1e-3)


@pytest.mark.slow
def test_relevance_maps_need_no_class_token():
    for pooling in ("cls", "mean", "sequence"):
        run = make_run(pooling=pooling)
        seen = attention.read_attention(run, IMAGES)
        maps = relevance.relevance_maps(run, IMAGES, CLASSES, seen)
        assert maps.shape == (3, 2, 2) and maps.min() >= -1e-6 and maps.max() > 0


@pytest.mark.slow
def test_a_normalised_stem_is_explained_like_any_other():
    run = make_run(
        stem="conv", stem_channels=(8, 8), stem_norm="batch", pooling="mean",
        stem_downsampling="avg_pool",
    )  # fmt: skip
    seen = attention.read_attention(run, IMAGES)
    maps = relevance.relevance_maps(run, IMAGES, CLASSES, seen)
    assert maps.shape == (3, 2, 2) and maps.max() > 0
    # BatchNorm's running statistics are used: an image's map is its own.
    alone = attention.read_attention(run, IMAGES[:1])
    np.testing.assert_allclose(alone.weights, seen.weights[:1], rtol=1e-4, atol=1e-6)
    assert model_weights.stem_filters(run).shape[:3] == (3, 3, 3)


@pytest.mark.slow
def test_grad_cam_of_the_last_stage_is_the_class_activation_map():
    """The head is linear in the mean of the features (Zhou et al., 2016)."""
    run = make_resnet_run()
    maps = gradcam.feature_maps(run, IMAGES)
    assert list(maps) == ["stem", "stage1", "stage2"]
    kernel = np.asarray(run.variables["params"]["head"]["kernel"])
    found = gradcam.grad_cam(run, IMAGES, CLASSES)
    by_hand = np.einsum("bijf,fb->bij", maps["stage2"], kernel[:, CLASSES]) / 16
    np.testing.assert_allclose(
        found, np.maximum(by_hand, 0), rtol=1e-4, atol=1e-5 * np.abs(by_hand).max()
    )
    assert gradcam.grad_cam(run, IMAGES, CLASSES, 1).shape == (3, 8, 8)


@pytest.mark.slow
def test_captions_are_calibrated(tmp_path):
    run = dataclasses.replace(make_run(), temperature=50.0)
    _, figures = explain.explain_images(run, IMAGES[:1], ["x"])
    expected = run.predict(IMAGES[:1], calibrated=True).max()
    assert expected < 0.9 * run.predict(IMAGES[:1]).max()
    assert figures["heat_maps"].axes[0].get_title().endswith(f" ({expected:.0%})")
    # One image has no standard error, and is drawn without.
    style.save(figures["faithfulness"], tmp_path / "f.png")


@pytest.mark.slow
def test_a_resnets_prediction_shows_grad_cam(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, path: drawn.append(figure))
    run, file = make_resnet_run(), tmp_path / "photo.png"
    Image.fromarray(IMAGES[0]).resize((30, 20)).save(file)
    (found,) = analysis_predict.predict_files(run, [file], IMAGES[:1], tmp_path)
    predicted = run.class_names.index(found["top"][0]["class"])
    photo, alone, *_ = drawn[0].axes
    expected = gradcam.grad_cam(run, IMAGES[:1], np.array([predicted]))[0]
    np.testing.assert_allclose(alone.images[0].get_array(), expected, rtol=1e-5)
    assert alone.get_title() == "Grad-CAM"
    # The middle of the photo, which is all that a square model sees.
    assert photo.images[0].get_array().shape == (20, 20, 3)


@pytest.mark.slow
def test_maps_are_drawn_beside_pictures_of_any_size():
    photos = [np.full((20, 30, 3), i, np.uint8) for i in range(2)]
    _, figures = explain.explain_images(make_run(), IMAGES[:2], ["x", "y"], photos)
    by_image = np.array(figures["heat_maps"].axes[:-1]).reshape(2, -1)
    for row, photo in zip(by_image, photos, strict=True):
        np.testing.assert_array_equal(row[0].images[0].get_array(), photo)
        assert row[1].images[0].get_extent() == [-0.5, 29.5, 19.5, -0.5]
    by_head = figures["attention_by_head"].axes[0]
    assert by_head.images[0].get_array().shape == (20, 30, 3)


def test_each_kind_of_model_has_its_pictures():
    with pytest.raises(UserError, match="no attention"):
        attention.read_attention(make_resnet_run(), IMAGES)
    with pytest.raises(UserError, match="no feature maps"):
        gradcam.feature_maps(make_run(), IMAGES)


def test_features_are_what_the_head_sees():
    run = make_run()
    found = run.features(IMAGES)
    head = run.variables["params"]["head"]
    logits = run.model.apply(run.variables, run.normalize(IMAGES), train=False)
    np.testing.assert_allclose(
        found @ head["kernel"] + head["bias"][None], logits, rtol=1e-4, atol=1e-4
    )


def test_cells_are_marked_and_spread_over_the_pixels():
    maps = np.array([[[1.0, 3.0], [2.0, 0.0]]])
    marked = faithfulness.most_marked(maps, 2)
    np.testing.assert_array_equal(marked, [[[False, True], [True, False]]])
    pixels = faithfulness.to_pixels(marked, 4, 4)
    np.testing.assert_array_equal(pixels[0], np.kron(marked[0], np.ones((2, 2), bool)))
    assert faithfulness.to_pixels(np.eye(3, dtype=bool)[None], 8, 7).shape == (1, 8, 7)


def test_curves_tell_a_good_map_from_a_bad_one():
    """A model that looks at the upper left quarter only."""

    def predict(images):
        share = images[:, :4, :4].mean(axis=(1, 2, 3)) / 255
        return np.stack([share, 1 - share], axis=1)

    images = np.full((2, 8, 8, 1), 255, np.uint8)
    good = np.array([[[1.0, 0], [0, 0]]] * 2)
    arguments = (np.array([0, 0]), np.array([0], np.uint8))
    found = faithfulness.measure(predict, images, good, *arguments, num_points=5)
    np.testing.assert_allclose(found.deletion, [[1, 0, 0, 0, 0]] * 2)
    np.testing.assert_allclose(found.insertion, [[0, 1, 1, 1, 1]] * 2)
    np.testing.assert_allclose(found.deletion_areas, 0.125)
    np.testing.assert_allclose(found.insertion_areas, 0.875)
    bad = faithfulness.measure(predict, images, -good, *arguments, num_points=5)
    np.testing.assert_allclose(bad.deletion_areas, 0.875)
    np.testing.assert_allclose(bad.insertion_areas, 0.125)

    maps = {"good": good, "bad": -good, "coarse": np.ones((2, 1, 1))}
    curves, scores = faithfulness.compare(predict, images, maps, *arguments)
    # One cell covers everything: its control is that cell, too, and not one of four.
    assert list(curves) == [*maps, "random, 2 × 2", "random, 1 × 1"] == list(scores)
    assert scores["coarse"]["deletion_minus_random"] == 0
    chance = scores["random, 2 × 2"]["deletion"]
    assert scores["good"]["deletion"] < chance < scores["bad"]["deletion"]
    assert scores["good"]["deletion_minus_random"] == pytest.approx(
        scores["good"]["deletion"] - chance
    )


def test_standard_errors_by_hand():
    share = np.array([0.0, 1.0])
    areas = np.array([[0.1, 0.1], [0.2, 0.2], [0.6, 0.6]])
    found = faithfulness.Curves(share, areas, 2 * areas)
    by_chance = faithfulness.Curves(share, areas + 0.25, 2 * areas)
    scores = faithfulness.describe(found, by_chance)
    assert scores["deletion"] == pytest.approx(0.3)
    # Squares 0.04, 0.01 and 0.09 over n - 1 = 2; the root; over the root of 3.
    assert scores["deletion_error"] == pytest.approx((0.14 / 2 / 3) ** 0.5)
    assert scores["insertion_error"] == pytest.approx(2 * scores["deletion_error"])
    assert scores["deletion_minus_random"] == pytest.approx(-0.25)
    # Image by image the difference is always the same.
    assert scores["deletion_minus_random_error"] == pytest.approx(0)
    mean, error = faithfulness.mean_and_error(areas[:1])
    np.testing.assert_allclose(mean, areas[0])
    assert np.isnan(error).all()


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["patch", "conv", "shifted_patch"])
def test_stem_filters_are_orthonormal(stem):
    run = make_run(stem=stem, stem_channels=(8,) if stem == "conv" else ())
    filters = model_weights.stem_filters(run)
    assert filters.shape[2] == 3
    flat = filters.reshape(-1, filters.shape[-1])
    np.testing.assert_allclose(flat.T @ flat, np.eye(flat.shape[1]), atol=1e-4)


def test_similarity_of_positions():
    found = model_weights.position_similarity(make_run(pooling="cls"))
    assert found.shape == (2, 2, 2, 2)
    np.testing.assert_allclose(np.einsum("ijij->ij", found), 1, rtol=1e-5)
    assert model_weights.position_similarity(make_resnet_run()) is None


@pytest.fixture(scope="module")
def copied_run(tiny_run, tmp_path_factory):
    """`tiny_run` is not to be changed, and explain writes into the run."""
    return shutil.copytree(tiny_run[0], tmp_path_factory.mktemp("runs") / "copy")


def test_the_command_draws_scores_and_prints(copied_run, capsys):
    arguments = ["--indices=3,5", "--head=2", "--head_fusion=max"]
    assert main([f"--workdir={copied_run}", *arguments]) == 0
    printed = capsys.readouterr().out
    scores = json.loads((copied_run / "explain.json").read_text())["faithfulness"]
    names = ["attention, block 1, head 2", "rollout", "relevance", "random, 2 × 2"]
    assert list(scores) == names and all(f"  {name} " in printed for name in names)
    drawn = {path.stem for path in (copied_run / "figures").glob("*.png")}
    assert drawn >= {
        "attention_by_head",
        "attention_distance",
        "faithfulness",
        "heat_maps",
        "position_similarity",
        "stem_filters",
    }


@pytest.mark.slow
def test_other_explanations_stand_apart(copied_run, tmp_path):
    def explained(folder):
        files = [folder / "explain.json", *(folder / "figures").iterdir()]
        return {file.name: file.read_bytes() for file in files}

    def run(*arguments):
        return main([f"--workdir={copied_run}", *arguments])

    best = load_run(copied_run).step
    (other,) = {3, 6} - {best}
    photo = tmp_path / "photo.png"
    Image.fromarray(IMAGES[0]).save(photo)
    assert run("--indices=0,1") == 0
    before = explained(copied_run)
    assert run("--indices=2", f"--checkpoint={other}") == 0
    assert run("--indices=2", "--split=val") == 0
    assert run(str(photo)) == 0
    assert explained(copied_run) == before
    for name, step in ((f"test-{other}", other), (f"val-{best}", best),
                       (f"files-{best}", best)):  # fmt: skip
        apart = explained(copied_run / "reports" / name)
        assert json.loads(apart["explain.json"])["step"] == step
        assert apart.keys() <= before.keys() and "heat_maps.png" in apart


def test_files_are_drawn_as_they_are(copied_run, tmp_path, monkeypatch):
    photo = RNG.integers(256, size=(20, 30, 3), dtype=np.uint8)
    Image.fromarray(photo).save(tmp_path / "photo.png")
    drawn = []

    def explained(run, images, captions, pictures, **options):
        drawn.extend(pictures)
        return {"random": {"deletion": 0.5, "insertion": 0.5}}, {}

    monkeypatch.setattr(explain, "explain_images", explained)
    files = 7 * [str(tmp_path / "photo.png")]
    assert main([f"--workdir={copied_run}", *files]) == 0
    # No more than are shown are read.
    assert len(drawn) == explain.SHOWN_IMAGES == 6
    np.testing.assert_array_equal(drawn[0], photo[:, 5:25])


def test_the_first_images_of_the_split_are_explained(copied_run):
    captions, images = run_data.read_split(load_run(copied_run))
    assert len(captions) == len(images) == run_data.MAX_IMAGES == 64
    assert captions[0].startswith("true ")


@pytest.mark.parametrize(
    "argument, words",
    [
        ("--indices=1,x", '"x"'),
        ("--indices=359", '"359".*0 to 358'),
        ("--block=0", "--block is 0"),
        ("--head=0", "--head is 0"),
        ("--split=tset", 'did you mean "test"'),
        ("--discard_ratio=1", "below 1"),
        ("--blok=1", '"--block"'),
        ("--checkpoint=17", "17"),
    ],
)
def test_mistakes_are_one_sentence(copied_run, argument, words):
    with pytest.raises(UserError, match=words):
        main([f"--workdir={copied_run}", argument])


@pytest.mark.slow
def test_a_resnet_is_explained_by_grad_cam():
    run = make_resnet_run()
    scores, figures = explain.explain_images(run, IMAGES, ["x", "y", "z"])
    methods = ["Grad-CAM, stage 1", "Grad-CAM, stage 2"]
    assert list(scores) == [*methods, "random, 8 × 8", "random, 4 × 4"]
    assert {"feature_maps", "heat_maps", "faithfulness", "stem_filters"} == set(figures)
