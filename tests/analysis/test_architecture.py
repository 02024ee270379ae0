"""The drawing of the network of a config or of a run, by the command."""

import pathlib
import shutil

import pytest

from vit_jax import data, explain, models
from vit_jax.errors import UserError
from vit_jax.figures import style
from vit_jax.runs.load import load_run

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"


@pytest.mark.slow
def test_a_config_is_drawn_without_data(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "load", None)
    arguments = [
        "--architecture",
        f"--config={CONFIGS / 'vit_192x9.py'}:resnet18",
        "--config.model.name=vit",
        "--config.model.depth=2",
    ]
    assert explain.main([*arguments, f"--figures={tmp_path}"]) == 0
    stem = tmp_path / "architecture_vit_192x9_resnet18"
    drawn = [str(stem.with_suffix(suffix)) for suffix in (".png", ".pdf")]
    assert capsys.readouterr().out.split() == drawn
    assert sorted(map(str, tmp_path.iterdir())) == sorted(drawn)
    monkeypatch.chdir(tmp_path)
    assert explain.main(["--architecture", f"--config={CONFIGS}/vit_digits.py"]) == 0
    assert (tmp_path / "architecture_vit_digits.png").exists()


@pytest.mark.slow
def test_a_runs_network_is_drawn_into_its_folder(tiny_run, tmp_path, monkeypatch):
    workdir = tmp_path / "run"
    # No checkpoint is needed.
    shutil.copytree(tiny_run[0], workdir, ignore=shutil.ignore_patterns("checkpoints"))
    titles = []
    save = style.save
    monkeypatch.setattr(
        style, "save", lambda f, path: titles.append(f.get_suptitle()) or save(f, path)
    )
    assert explain.main(["--architecture", f"--workdir={workdir}"]) == 0
    assert (workdir / "figures" / "architecture.png").exists()
    num_params = models.count_params(load_run(tiny_run[0]).variables["params"])
    assert titles[0].startswith(f"run\n{num_params:,} parameters, ")


def test_a_masked_autoencoder_is_not_drawn_as_a_classifier():
    with pytest.raises(UserError, match="trains a masked autoencoder, of which"):
        explain.main(["--architecture", f"--config={CONFIGS}/vit_mae.py"])


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--architecture"], "either --config or --workdir"),
        (["--architecture", "--config=a.py", "--workdir=r"], "either --config or"),
        (["--architecture", "--config=a.py", "x.png"], "no FILE"),
        (["--architecture", "--config=a.py"], "no config file a.py"),
        (["--architecture", "--config=a", "--config.model.depth", "3"], "depth=VALUE"),
        (["--architecture", "--config=a.py", "--block=2"], "--block has no effect"),
        (["--architecture", "--workdir=r", "--data_dir=d"], "--data_dir has no effect"),
        (["--architecture", "--workdir=RUN", "--config.seed=1"], "would change"),
        (["--architecture", "--workdir=RUN", "--figure=x"], 'did you mean "--figures"'),
        (["--workdir=RUN", "--figures=x"], "belong to --architecture"),
        (["--config=a.py"], "needs --workdir=RUN"),
        ([], "needs --workdir=RUN"),
        (
            [
                "--architecture",
                f"--config={CONFIGS / 'resnet_cifar.py'}",
                "--config.data.source=folder",
            ],
            "only the data tell .* give --workdir=RUN",
        ),
        (
            [
                "--architecture",
                f"--config={CONFIGS / 'vit_cifar.py'}",
                "--config.model.num_heads=5",
            ],
            "num_heads is 5",
        ),
    ],
)
def test_mistakes_are_one_sentence(tiny_run, arguments, words):
    arguments = [a.replace("=RUN", f"={tiny_run[0]}") for a in arguments]
    with pytest.raises(UserError, match=words):
        explain.main(arguments)
