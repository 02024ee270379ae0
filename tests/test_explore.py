"""The explore command on the digits."""

import json

import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.explore import main


@pytest.mark.slow
def test_the_command_draws_and_prints(tiny_run, tmp_path, capsys):
    out = tmp_path / "deep" / "out"
    main(
        [
            "--config=configs/vit_digits.py",
            f"--out={out}",
            f"--run={tiny_run[0]}",
            "--tsne_images=30",
            "--config.augment.cutmix_alpha=1.0",
        ]
    )
    printed = capsys.readouterr().out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["image_shape"] == [8, 8, 1]
    assert sum(summary["class_counts"]["train"]) == 1258
    np.testing.assert_allclose(summary["config_mean"], summary["train_mean"], rtol=1e-6)
    spaces = {"raw pixels", "features"}
    planes = {f"t-SNE plane of {name}" for name in spaces}
    assert set(summary["distances"]) == spaces | planes
    assert summary["distances"]["raw pixels"]["num_examples"] == 30
    assert "test in train" in summary["duplicates"]
    assert "distance in features" in printed
    assert (
        "distance in t-SNE plane of raw pixels" in printed
        and "train: 1,258 images" in printed
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


def test_mistakes_are_one_sentence(tmp_path, tiny_run):
    start = ["--config=configs/vit_digits.py", f"--out={tmp_path / 'o'}"]
    with pytest.raises(UserError, match="10 or more"):
        main([*start, "--tsne_images=3"])
    with pytest.raises(UserError, match='"--tsne_images"'):
        main([*start, "--tsne_image=30"])
    with pytest.raises(UserError, match="cannot be written to"):
        (tmp_path / "file").write_text("")
        main([start[0], f"--out={tmp_path / 'file' / 'o'}"])
