"""The explore command on the digits."""

import json

import numpy as np
import pytest
from PIL import Image

from vit_jax.config import make_config
from vit_jax.errors import UserError
from vit_jax.explore import main
from vit_jax.training.train import train_and_evaluate


@pytest.mark.slow
def test_the_command_draws_and_prints(tiny_run, tmp_path, capsys):
    out = tmp_path / "deep" / "out"
    main(
        [
            f"--out={out}",
            f"--run={tiny_run[0]}",
            "--tsne_images=30",
        ]
    )
    printed = capsys.readouterr().out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["image_shape"] == [8, 8, 1]
    assert sum(summary["class_counts"]["train"]) == 1288
    np.testing.assert_allclose(summary["config_mean"], summary["train_mean"], rtol=1e-6)
    spaces = {"raw pixels", "features"}
    planes = {f"t-SNE plane of {name}" for name in spaces}
    assert set(summary["distances"]) == spaces | planes
    assert summary["distances"]["raw pixels"]["num_examples"] == 30
    assert "test in train" in summary["duplicates"]
    assert "distance in features" in printed
    assert (
        "distance in t-SNE plane of raw pixels" in printed
        and "train: 1,288 images" in printed
    )
    names = {path.stem for path in out.glob("*.png")}
    assert names >= {
        "augmentation",
        "channel_histograms",
        "class_counts",
        "class_patches",
        "class_samples",
        "patches",
        "tsne",
    }


@pytest.mark.slow
def test_a_probe_that_the_test_split_judges_has_no_augmentation_and_no_val(tmp_path):
    # Of an earlier call into the same folder, and of somebody else.
    for name in ("augmentation", "duplicates_val_train", "mine"):
        (tmp_path / f"{name}.png").touch()
    settings = ("linear_probe=True", "data.validation=0", "data.select_on=test")
    main(
        [
            "--config=configs/vit_digits.py",
            f"--out={tmp_path}",
            "--tsne_images=30",
            *(f"--config.{setting}" for setting in settings),
        ]
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary["class_counts"]) == {"train", "test"}
    left = {path.stem for path in tmp_path.glob("*.png")}
    assert not left & {"augmentation", "duplicates_val_train"} and "mine" in left


def test_mistakes_are_one_sentence(tmp_path, tiny_run):
    start = ["--config=configs/vit_digits.py", f"--out={tmp_path / 'o'}"]
    with pytest.raises(UserError, match="10 or more"):
        main([*start, "--tsne_images=3"])
    with pytest.raises(UserError, match='"--tsne_images"'):
        main([*start, "--tsne_image=30"])
    with pytest.raises(UserError, match="--eval_batch_size is for the features"):
        main([*start, "--eval_batch_size=7"])
    with pytest.raises(UserError, match="cannot be written to"):
        (tmp_path / "file").write_text("")
        main([start[0], f"--out={tmp_path / 'file' / 'o'}"])


@pytest.mark.slow
def test_a_run_brings_all_its_settings(tmp_path):
    """Its data folder, patch size and statistics, and nothing is downloaded."""
    folder, rng = tmp_path / "photos", np.random.default_rng(0)
    for split, count in (("train", 6), ("test", 4)):
        for name in ("cat", "dog"):
            (folder / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(256, size=(8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{i}.png")
    config = {
        "num_steps": 1,
        "batch_size": 4,
        "num_devices": 1,
        "data": {
            "source": "folder",
            "dir": str(folder),
            "validation": 2,
            "mean": (0.25, 0.5, 0.75),
            "std": (0.1, 0.2, 0.3),
        },
        "augment": {"crop": "none"},
        "schedule": {"warmup": 0},
        "model": {"patch_size": 2, "width": 16, "depth": 1, "num_heads": 2},
    }
    train_and_evaluate(make_config(config), tmp_path / "run")
    main([f"--run={tmp_path / 'run'}", f"--out={tmp_path / 'o'}", "--tsne_images=10"])
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["config_mean"] == [0.25, 0.5, 0.75]
    assert summary["class_counts"]["train"] == [5, 5]
    assert "features" in summary["distances"]
    with Image.open(tmp_path / "o" / "class_patches.png") as figure:
        assert figure.width > 100
    with pytest.raises(UserError, match="give either --config=CONFIG or --run=RUN"):
        main(["--config=vit_cifar", f"--run={tmp_path / 'run'}", "--out=o"])
    with pytest.raises(UserError, match="give either"):
        main(["--out=o"])
    with pytest.raises(UserError, match="only --data_source"):
        main([f"--run={tmp_path / 'run'}", "--out=o", "--config.model.patch_size=4"])
