"""The explain command on a run of six steps."""

import json

import pytest
from PIL import Image

from tests.interpret.untrained import IMAGES
from vit_jax.errors import UserError
from vit_jax.explain import main
from vit_jax.interpret.attention import HEAD_FUSIONS
from vit_jax.runs.load import load_run


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
    assert run("--indices=2", "--split=val", f"--checkpoint={other}") == 0
    assert run(str(photo)) == run(str(photo)) == 0
    with pytest.raises(UserError, match="--data_dir is for the run's data, not for"):
        run(str(photo), "--data_dir=elsewhere")
    assert explained(copied_run) == before
    for name, step in ((f"val-{other}", other), (f"files-{best}", best)):
        apart = explained(copied_run / "reports" / name)
        assert json.loads(apart["explain.json"])["step"] == step
        assert apart.keys() <= before.keys() and "heat_maps.png" in apart


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


def test_every_fusion_of_heads_can_be_asked_for(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert f"{{{','.join(HEAD_FUSIONS)}}}" in capsys.readouterr().out
