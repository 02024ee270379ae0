"""The figures and scores of explanations."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from tests.interpret.untrained import IMAGES, make_resnet_run, make_run
from vit_jax.analysis import explain
from vit_jax.errors import UserError
from vit_jax.explain import main
from vit_jax.figures import style

RNG = np.random.default_rng(0)


@pytest.mark.slow
def test_captions_are_calibrated(tmp_path):
    run = dataclasses.replace(make_run(), temperature=50.0)
    _, figures = explain.explain_images(run, IMAGES[:1], ["x"], IMAGES[:1])
    expected = run.predict(IMAGES[:1], calibrated=True).max()
    assert expected < 0.9 * run.predict(IMAGES[:1]).max()
    assert figures["heat_maps"].axes[0].get_title().endswith(f" ({expected:.0%})")
    # One image has no standard error, and the figure is drawn without it.
    style.save(figures["faithfulness"], tmp_path / "f.png")


@pytest.mark.slow
def test_maps_are_drawn_beside_pictures_of_any_size():
    photos = [np.full((20, 30, 3), i, np.uint8) for i in range(2)]
    _, figures = explain.explain_images(make_run(), IMAGES[:2], ["x", "y"], photos)
    by_image = np.array(figures["heat_maps"].axes[:-1]).reshape(2, -1)
    for row, photo in zip(by_image, photos, strict=True):
        np.testing.assert_array_equal(row[0].images[0].get_array(), photo)
        assert row[2].images[0].get_extent() == [-0.5, 29.5, 19.5, -0.5]
    by_head = figures["attention_by_head"].axes[0]
    assert by_head.images[0].get_array().shape == (20, 30, 3)


def test_attention_that_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(explain.meshes, "free_bytes", lambda devices: 1000)
    with pytest.raises(UserError, match="are for attention in 2 images"):
        explain.explain_vit(make_run(), IMAGES[:2], np.zeros(2, int), IMAGES[0], "x")


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
    # Only as many files are read as are shown.
    assert len(drawn) == explain.SHOWN_IMAGES == 6
    np.testing.assert_array_equal(drawn[0], photo[:, 5:25])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--indices=0", "a.png"], "--indices chooses images of a split"),
        (["--split=val", "a.png"], "--split chooses images of a split"),
        (["--block=1"], "--block is for ViTs"),
        (["--head_fusion=max"], "--head_fusion is for ViTs"),
    ],
)
def test_options_without_effect_are_refused(copied_run, monkeypatch, options, words):
    if options[0].startswith(("--block", "--head")):
        resnet = dataclasses.replace(make_resnet_run(), workdir=copied_run)
        monkeypatch.setattr(explain, "load_classifier", lambda *_: resnet)
    with pytest.raises(UserError, match=words):
        main([f"--workdir={copied_run}", *options])


def test_one_image_has_no_standard_error():
    score = {"deletion": 0.5, "insertion": 0.5}
    score |= {f"{key}_minus_random{end}": value for key in ("deletion", "insertion")
              for end, value in (("", 0.1), ("_error", np.nan))}  # fmt: skip
    text = explain.to_text({"rollout": score}, 1)
    assert "0.500 (+0.100)" in text and "nan" not in text


@pytest.mark.slow
def test_a_resnet_is_explained_by_grad_cam():
    run = make_resnet_run()
    scores, figures = explain.explain_images(run, IMAGES, ["x", "y", "z"], IMAGES)
    methods = ["Grad-CAM, stage 1", "Grad-CAM, stage 2"]
    assert list(scores) == [*methods, "random, 8 × 8", "random, 4 × 4"]
    assert {"feature_maps", "heat_maps", "faithfulness", "stem_filters"} == set(figures)
