"""The predict command on image files, with a run of six steps."""

import json

import numpy as np
import pytest
from PIL import Image

from vit_jax.analysis.predict import describe_temperature
from vit_jax.errors import UserError
from vit_jax.interpret import inputs
from vit_jax.predict import main
from vit_jax.runs.load import load_run


def test_json_lines_hold_what_the_run_predicts(tiny_run, pictures, capsys):
    workdir, _ = tiny_run
    status = main([f"--workdir={workdir}", str(pictures), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0 and len(lines) == 3
    run = load_run(workdir)
    assert lines[0]["temperature"] == 1
    read = inputs.read_images(inputs.find_images([str(pictures)]), (8, 8, 1))
    expected = run.predict(np.stack([image for _, image in read]))
    for line, row in zip(lines, expected, strict=True):
        assert [one["class"] for one in line["top"]] == [
            run.class_names[i] for i in np.argsort(-row)[:3]
        ]
        assert line["top"][0]["probability"] == pytest.approx(row.max(), abs=1e-5)


def test_what_is_no_image_is_named_and_the_rest_predicted(
    tiny_run, pictures, tmp_path, capsys, monkeypatch
):
    """The files are no image, missing, too large and cut off."""
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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "arguments, words", [(["x.png"], "--workdir"), (["--workdir=r"], "FILE")]
)
def test_missing_arguments_are_named(arguments, words):
    with pytest.raises(UserError, match=f"{words} is missing"):
        main(arguments)


def test_the_temperature_in_use_is_printed(tiny_run, pictures, capsys):
    assert main([f"--workdir={tiny_run[0]}", str(pictures / "a.png")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("no temperature is fitted (T = 1).")
    assert "T = 1.71" in describe_temperature(1.7082)
