"""The README's two first pictures: they show what the records hold."""

import json

import pytest
from PIL import Image

from experiments import draw_records

RECIPES = [*draw_records.ON_A_CPU.values(), *draw_records.ON_AN_H200.values()]


@pytest.mark.parametrize("name", RECIPES)
def test_curves_have_the_chosen_accuracy_and_end_with_the_training(name):
    clock = "cpu_seconds" if name in draw_records.ON_A_CPU.values() else "seconds"
    for folder in draw_records.folders(name):
        time, accuracy = draw_records.curve(folder, clock, seconds=1)
        results = json.loads((folder / "results.json").read_text())
        assert max(accuracy) == results["val"]["accuracy"]
        total = results["train_seconds" if clock == "seconds" else clock]
        assert 0.99 * total <= time[-1] <= 1.01 * total
        assert (time[1:] > time[:-1]).all()


@pytest.mark.slow
def test_both_pictures_are_written(tmp_path):
    assert draw_records.main([f"--out={tmp_path / 'new'}"]) == 0
    pictures = sorted((tmp_path / "new").iterdir())
    assert [picture.name for picture in pictures] == [
        "vit_against_resnet.png", "vit_against_resnet_h200.png",
    ]  # fmt: skip
    for picture in pictures:
        with Image.open(picture) as image:
            assert image.width > 1000
            assert len(image.convert("RGB").getcolors(1 << 24)) > 20
