"""The explain command on a run of six steps."""

import contextlib
import io
import json
import shutil

import pytest
from PIL import Image

from tests.interpret.untrained import IMAGES
from vit_jax import data
from vit_jax.errors import UserError
from vit_jax.explain import main
from vit_jax.interpret.attention import HEAD_FUSIONS
from vit_jax.runs.load import load_run


@pytest.fixture(scope="module")
def explained(tiny_run, tmp_path_factory):
    """(folder, printed text) of a copied run with explanations of two test images."""
    folder = shutil.copytree(tiny_run[0], tmp_path_factory.mktemp("runs") / "copy")
    arguments = ["--indices=3,5", "--head=2", "--head_fusion=max"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main([f"--workdir={folder}", *arguments]) == 0
    return folder, printed.getvalue()


@pytest.mark.slow
def test_the_command_draws_scores_and_prints(explained):
    folder, printed = explained
    scores = json.loads((folder / "explain.json").read_text())["faithfulness"]
    names = ["attention, block 1, head 2", "rollout", "relevance", "random, 2 × 2"]
    assert list(scores) == names and all(f"  {name} " in printed for name in names)
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert drawn >= {
        "attention_by_head",
        "attention_distance",
        "faithfulness",
        "heat_maps",
        "position_similarity",
        "stem_filters",
    }


@pytest.mark.slow
def test_other_explanations_stand_apart(explained, tmp_path):
    own = shutil.copytree(explained[0], tmp_path / "copy")

    def contents(folder):
        files = [folder / "explain.json", *(folder / "figures").iterdir()]
        return {file.name: file.read_bytes() for file in files}

    def run(*arguments):
        return main([f"--workdir={own}", *arguments])

    best = load_run(own).step
    (other,) = {3, 6} - {best}
    photo = tmp_path / "photo.png"
    Image.fromarray(IMAGES[0]).save(photo)
    before = contents(own)
    assert run("--indices=2", "--split=val", f"--checkpoint={other}") == 0
    assert run(str(photo)) == run(str(photo)) == 0
    with pytest.raises(UserError, match="--data_dir is for the run's data, not for"):
        run(str(photo), "--data_dir=elsewhere")
    assert contents(own) == before
    for name, step in ((f"val-{other}", other), (f"files-{best}", best)):
        apart = contents(own / "reports" / name)
        found = json.loads(apart["explain.json"])
        assert found["step"] == step
        assert found["selected_on"] == ("val" if step == best else None)
        assert apart.keys() <= before.keys() and "heat_maps.png" in apart


@pytest.mark.parametrize("flag", ["--block=0", "--head=3"])
def test_a_block_or_head_is_refused_before_the_data_are_loaded(
    copied_run, monkeypatch, flag
):
    monkeypatch.setattr(data, "load", None)
    name, _, number = flag[2:].partition("=")
    words = rf"--{name} is {number}, but this model has \d; give 1 to \d\."
    with pytest.raises(UserError, match=words):
        main([f"--workdir={copied_run}", flag])


@pytest.mark.parametrize(
    "argument, words",
    [
        ("--indices=1,x", '"x"'),
        ("--indices=359", '"359".*0 to 358'),
        ("--split=tset", 'did you mean "test"'),
        ("--discard_ratio=1", "below 1"),
        ("--blok=1", '"--block"'),
        ("--checkpoint=17", "17"),
    ],
)
def test_mistakes_are_one_sentence(copied_run, argument, words):
    with pytest.raises(UserError, match=words):
        main([f"--workdir={copied_run}", argument])


def test_every_fusion_of_heads_can_be_asked_for(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert f"{{{','.join(HEAD_FUSIONS)}}}" in capsys.readouterr().out
