"""What all figures share: colours, ticks, files, and no global state."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.legend import Legend

from vit_jax.errors import printable
from vit_jax.figures import compare, confusion, embedding, predict, roc, style
from vit_jax.metrics.roc import RocCurve


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG\r\n"), ("pdf", b"%PDF-")]
)
def test_save_writes_the_format_of_the_suffix(tmp_path, suffix, magic):
    figure = style.new_figure(2, 1, "Title ✓ ✗")
    figure.add_subplot().plot([0, 1])
    path = style.save(figure, tmp_path / "new" / f"figure.{suffix}")
    assert path.read_bytes().startswith(magic)
    if suffix == "png":
        width, height = np.frombuffer(path.read_bytes()[16:24], ">u4")
        assert (width, height) == (300, 150)  # inches at 150 dots


def test_long_names_lose_their_middle():
    assert style.ellipsize("photo.jpg", 9) == "photo.jpg"
    for length in (8, 9):
        short = style.ellipsize("a_long_name.jpg", length)
        assert len(short) == length
        assert short.startswith("a_l") and short.endswith(".jpg")


def test_shortened_names_differ():
    names = ["large_carnivores", "cat", "large_omnivores_and_herbivores", "whitewolf"]
    short = style.short_names(names)
    assert len(set(short)) == 4 and short[1::2] == names[1::2]
    assert short[::2] == ["large_…nivores", "large_…bivores"]
    long = [f"2021_camera_site_{x}_northern_cardinal_male" for x in "AB"]
    assert style.short_names(long) == ["…e_A_n…l_male", "…e_B_n…l_male"]
    longest = [f"{'a' * 20}{i}{'b' * 40}{i % 2}{'z' * 20}" for i in range(4)]
    assert len({*style.short_names(longest)}) == 4
    assert max(map(len, style.short_names(longest))) <= 18
    # As the font of a figure shows them.
    assert style.short_names(["猫", "猫猫猫", "dog"]) == [
        "\\u732b",
        "\\u732b…\\u732b",
        "dog",
    ]
    # A name that stands twice, as in a figure of several images of a class.
    assert style.short_names(["x" * 30, "x" * 30]) == ["xxxxxx…xxxxxx"] * 2


def test_the_looks_of_series_differ():
    looks = [style.series_look(index) for index in range(100)]
    assert len({to_hex(look["color"]) for look in looks}) == 10
    assert len({(look["color"], look["linestyle"]) for look in looks[:20]}) == 20
    assert len({(look["color"], look["marker"]) for look in looks}) == 100


def test_a_title_wider_than_its_figure_is_wrapped():
    figure = style.new_figure(4, 3, "true golden-winged, predicted black-billed cuckoo")
    figure.add_subplot()
    figure.draw_without_rendering()
    (title,) = figure.texts
    extent = title.get_window_extent()
    assert figure.bbox.x0 <= extent.x0 and extent.x1 <= figure.bbox.x1


@pytest.mark.parametrize(("num_classes", "shown"), [(10, 10), (50, 50), (100, 25)])
def test_class_labels(num_classes, shown):
    axes = style.new_figure(4, 4).add_subplot()
    names = [f"class {i}" for i in range(num_classes)]
    style.label_classes(axes.xaxis, names, rotation=45)
    ticks = {t.get_position()[0]: t.get_text() for t in axes.get_xticklabels()}
    assert len(ticks) == shown
    assert all(names[int(place)] == text for place, text in ticks.items())


def test_few_classes_are_all_shown_and_of_many_the_lowest_and_the_highest():
    scores = np.random.default_rng(0).permutation(21) * 1.0
    shown, note = style.shown_classes("AUC", scores[:20])
    assert list(shown) == list(range(20)) and note == ""
    shown, note = style.shown_classes("AUC", scores)
    assert list(scores[shown]) == [*range(10), *range(11, 21)]
    assert note == "\n20 of 21 classes: the lowest and the highest by AUC"
    shown, _ = style.shown_classes("AUC", scores, 4)
    assert list(scores[shown]) == [0, 1, 19, 20]
    # Classes without a score are left out, even if only few have one.
    scores[scores > 12] = np.nan
    shown, note = style.shown_classes("AUC", scores)
    assert list(scores[shown]) == list(range(13))
    assert note == "\nthe 13 of 21 classes whose AUC is known"
    assert not len(style.shown_classes("AUC", np.full(21, np.nan))[0])
    # Equal scores, such as equally many images, choose nothing.
    shown, note = style.shown_classes("number of images", np.full(30, 500))
    assert list(shown) == list(range(20)) and note == "\nthe first 20 of 30 classes"


def test_grey_images_are_not_stretched():
    axes = style.new_figure(1, 1).add_subplot()
    style.show_image(axes, np.full((4, 4, 1), 100, np.uint8))
    assert axes.images[0].get_clim() == (0, 255)
    assert axes.images[0].get_array().shape == (4, 4)


def test_no_figure_touches_pyplot_or_jax(tmp_path):
    code = (
        "import pkgutil, importlib, sys, vit_jax.figures as f\n"
        "for x in pkgutil.iter_modules(f.__path__, 'vit_jax.figures.'):\n"
        "    importlib.import_module(x.name)\n"
        "from vit_jax.figures import history, style\n"
        "curves = {'epoch': [1.0], 'val_loss': [2.0]}\n"
        "style.save(history.training_curves(curves), sys.argv[1])\n"
        "sys.exit('matplotlib.pyplot' in sys.modules or 'jax' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "x.png")]
    assert subprocess.run(command, check=False).returncode == 0


HOSTILE = (
    "a$b^{$",
    "$$",
    "\\frac{",
    "\x1b[31mred",
    "no\udcffutf8",
    "<script>",
    "α" * 99,
)


def test_names_are_shown_as_they_are(tmp_path):
    matrix = np.eye(len(HOSTILE), dtype=int)
    figure = confusion.confusion_matrix(matrix, HOSTILE, title=HOSTILE[0])
    style.label_axes(figure.axes[0], *HOSTILE[:3])
    figure.axes[0].plot([1], label=HOSTILE[0])
    figure.axes[0].legend()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the names are too long for the layout
        assert style.save(figure, tmp_path / "figure.png").stat().st_size > 1000
    labels = figure.axes[0].get_xticklabels()
    assert not any(label.get_parse_math() for label in labels)
    shown = [label.get_text() for label in labels]
    assert shown[:6] == [printable(name) for name in HOSTILE[:6]]


def test_names_that_no_font_shows_are_escaped_on_every_axis(tmp_path):
    name, shown = "caf\udce9", "caf\\udce9"
    pairs = [(0, 1, 3, 0.5)]
    photo = np.zeros((4, 4, 3), np.uint8)
    for figure in (
        confusion.top_confusions(pairs, pairs, [name, "b"], 6),
        predict.prediction(photo, [name, "b"], [0.6, 0.4]),
        compare.accuracy_chart({name: (0.9, 0.8, 0.95)}, {}),
    ):
        style.save(figure, tmp_path / "figure.png")
        labels = [x.get_text() for axes in figure.axes for x in axes.get_yticklabels()]
        assert any(shown in label for label in labels)


def test_characters_that_the_font_lacks_are_escaped(tmp_path):
    """Two classes would both be boxes without a name."""
    figure = confusion.confusion_matrix(np.eye(2, dtype=int), ("猫", "犬 é✓"))
    style.save(figure, tmp_path / "figure.png")
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["\\u732b", "\\u72ac é✓"]


def test_names_with_an_underscore_stand_in_legends():
    names, x = ("_background", "cat"), np.linspace(0, 1, 6)
    curves = {name: (x, x) for name in names}
    points, labels = np.zeros((2, 2)), np.arange(2)
    for figure in (
        embedding.class_scatter({"t-SNE": points}, labels, names),
        roc.roc_curves([RocCurve(x, x, 0.5)] * 2, names, 0.5),
        compare.training_curves({"val": curves}, {"val": curves}),
        compare.accuracy_over_time({name: [curve] for name, curve in curves.items()}),
    ):
        legends = figure.findobj(Legend)
        texts = [text.get_text() for legend in legends for text in legend.get_texts()]
        assert all(any(name in text for text in texts) for name in names)
