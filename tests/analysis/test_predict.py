"""Prediction of anybody's image files, from a run that trained for six steps."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.interpret.untrained import IMAGES, make_resnet_run
from vit_jax.analysis import predict as analysis_predict
from vit_jax.analysis.predict import describe
from vit_jax.errors import UserError
from vit_jax.figures import style
from vit_jax.interpret import attention, gradcam, inputs
from vit_jax.predict import main
from vit_jax.runs.load import load_run


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder with a grey, an RGB and an RGBA picture, and a text beside them."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(20, 30, 4), dtype=np.uint8)
    Image.fromarray(pixels[..., 0]).save(folder / "a.png")
    Image.fromarray(pixels[..., :3]).save(folder / "b.jpg")
    (folder / "deeper").mkdir()
    Image.fromarray(pixels).save(folder / "deeper" / "c.png")
    (folder / "notes.txt").write_text("no image")
    return folder


@pytest.mark.parametrize(
    "probability, sentence",
    [
        (0.901, "very sure: dog (90.1%)"),
        (0.9, "fairly sure: dog (90.0%)"),
        (0.701, "fairly sure: dog (70.1%)"),
        (0.7, "unsure: perhaps dog (70.0%)"),
    ],
)
def test_the_sentence_has_two_borders(probability, sentence):
    rest = 1 - probability
    found = describe(
        np.array([0.5 * rest, probability, 0.2 * rest, 0.3 * rest]),
        ("cat", "dog", "ship", "frog"),
    )
    assert found["sentence"] == sentence
    assert [one["class"] for one in found["top"]] == ["dog", "cat", "frog"]


def test_a_folder_gives_its_images_in_the_models_shape(pictures, capsys):
    files = inputs.find_images([str(pictures)])
    assert [file.name for file in files] == ["a.png", "b.jpg", "c.png"]
    read, images = inputs.read_images(files, (8, 6, 1))
    assert read == files and images.shape == (3, 8, 6, 1)
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 2 and "b.jpg is RGB, converted to L" in notes[0]
    assert "c.png is RGBA" in notes[1]
    assert inputs.read_images(files, (4, 4, 3))[1].shape == (3, 4, 4, 3)


def test_a_photo_is_drawn_upright_in_its_own_size(pictures, tmp_path):
    photo = inputs.read_photo(pictures / "b.jpg")
    np.testing.assert_array_equal(photo, np.asarray(Image.open(pictures / "b.jpg")))
    exif = Image.Exif()
    exif[0x0112] = 6  # To be turned clockwise by a quarter: left becomes top.
    image = Image.new("RGB", (3200, 16))
    image.paste("white", (0, 0, 1600, 16))
    image.save(tmp_path / "turned.png", exif=exif)
    photo = inputs.read_photo(tmp_path / "turned.png")
    assert photo.shape == (1200, 6, 3)
    assert photo[:590].min() > 250 and photo[610:].max() < 5
    # What the model takes is the same photo, squeezed.
    _, (squeezed,) = inputs.read_images([tmp_path / "turned.png"], (8, 8, 3))
    assert squeezed[:3].min() > 250 and squeezed[5:].max() < 5


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no image"):
        inputs.find_images([str(tmp_path)])


def test_json_lines_hold_what_the_run_predicts(tiny_run, pictures, capsys):
    workdir, _ = tiny_run
    status = main([f"--workdir={workdir}", str(pictures), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0 and len(lines) == 3
    run = load_run(workdir)
    assert lines[0]["temperature"] == 1
    _, images = inputs.read_images(inputs.find_images([str(pictures)]), (8, 8, 1))
    expected = run.predict(images)
    for line, row in zip(lines, expected, strict=True):
        assert [one["class"] for one in line["top"]] == [
            run.class_names[i] for i in np.argsort(-row)[:3]
        ]
        assert line["top"][0]["probability"] == pytest.approx(row.max(), abs=1e-5)


def test_what_is_no_image_is_named_and_the_rest_predicted(
    tiny_run, pictures, tmp_path, capsys, monkeypatch
):
    """Rows of the fault list: no image, no such file, too many pixels."""
    monkeypatch.setattr("vit_jax.data.image_files.MAX_PIXELS", 599)
    cut = tmp_path / "cut.png"
    cut.write_bytes((pictures / "a.png").read_bytes()[:100])
    Image.new("L", (10, 10)).save(tmp_path / "small.png")
    bad = [pictures / "notes.txt", tmp_path / "gone.png", pictures / "a.png", cut]
    arguments = [*map(str, bad), str(tmp_path / "small.png")]
    status = main([f"--workdir={tiny_run[0]}", *arguments])
    out, err = capsys.readouterr()
    assert status == 1 and "small.png" in out
    skipped = [line for line in err.splitlines() if line.startswith("skipped: ")]
    assert len(skipped) == 4
    for line, file in zip(skipped, bad, strict=True):
        assert file.name in line
    assert "600" in skipped[2] or "30x20" in skipped[2]


def test_another_checkpoint_may_be_asked(tiny_run, pictures, capsys):
    answers = {}
    for which in ("3", "6"):
        arguments = [f"--checkpoint={which}", "--json", str(pictures / "a.png")]
        assert main([f"--workdir={tiny_run[0]}", *arguments]) == 0
        answers[which] = json.loads(capsys.readouterr().out)["top"]
    assert answers["3"] != answers["6"]
    with pytest.raises(UserError, match="17"):
        main([f"--workdir={tiny_run[0]}", "--checkpoint=17", "x.png"])


def test_figures_are_drawn_and_arguments_may_come_in_any_order(
    tiny_run, pictures, tmp_path
):
    file = str(pictures / "a.png")
    arguments = [file, f"--figures={tmp_path / 'f'}", f"--workdir={tiny_run[0]}", file]
    assert main(arguments) == 0
    drawn = sorted(path.name for path in (tmp_path / "f").iterdir())
    assert drawn == ["001_a.png", "002_a.png"]
    with Image.open(tmp_path / "f" / "001_a.png") as figure:
        assert figure.width > 500


def test_attention_lies_on_the_photo_itself(tiny_run, pictures, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, path: drawn.append(figure))
    file = pictures / "b.jpg"
    arguments = [f"--workdir={tiny_run[0]}", f"--figures={tmp_path}", str(file)]
    assert main(arguments) == 0
    photo, alone, overlay, *_ = drawn[0].axes
    pixels = np.asarray(Image.open(file))
    assert pixels.shape == (20, 30, 3)
    np.testing.assert_array_equal(photo.images[0].get_array(), pixels)
    run = load_run(tiny_run[0])
    _, images = inputs.read_images([file], run.image_shape)
    expected = attention.read_attention(run, images).maps()[0, -1].mean(axis=0)
    for heat in (alone.images[0], overlay.images[1]):
        np.testing.assert_allclose(heat.get_array(), expected, rtol=1e-5)
        assert heat.get_extent() == [-0.5, 29.5, 19.5, -0.5]
    assert alone.get_title() == "attention, last block"


@pytest.mark.parametrize(
    "arguments, words", [(["x.png"], "--workdir"), (["--workdir=r"], "FILE")]
)
def test_missing_arguments_are_named(arguments, words):
    with pytest.raises(UserError, match=f"{words} is missing"):
        main(arguments)


@pytest.mark.slow
def test_a_resnets_prediction_shows_grad_cam(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, path: drawn.append(figure))
    run, file = make_resnet_run(), tmp_path / "photo.png"
    Image.fromarray(IMAGES[0]).resize((30, 20)).save(file)
    (found,) = analysis_predict.predict_files(run, [file], IMAGES[:1], tmp_path)
    predicted = run.class_names.index(found["top"][0]["class"])
    _, alone, overlay, *_ = drawn[0].axes
    expected = gradcam.grad_cam(run, IMAGES[:1], np.array([predicted]))[0]
    np.testing.assert_allclose(alone.images[0].get_array(), expected, rtol=1e-5)
    assert alone.get_title() == "Grad-CAM"
    assert overlay.images[0].get_array().shape == (20, 30)
