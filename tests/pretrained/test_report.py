"""The report on a file of weights, as a terminal shows it."""

from vit_jax.pretrained.report import Report


def test_rows_of_one_reason_are_joined():
    report = Report(
        path="vit.npz", format="npz", sha256="0f", layout="google", settings={},
        differences={"norm_eps": (1e-12, 1e-6)}, pretraining_image=(224, 160),
        mapped={"head/bias": "head/bias"}, resized={"positions": "14 x 14 to 8 x 8"},
        dropped={"a": "not needed", "b": "other", "c": "not needed"},
        new={"head/kernel": "a fresh head"},
    )  # fmt: skip
    assert str(report).splitlines() == [
        "weights       vit.npz",
        "SHA-256       0f",
        "format        npz, names of google",
        "mapped        1 parameters",
        "resized       positions: 14 x 14 to 8 x 8",
        "dropped       a, c: not needed",
        "dropped       b: other",
        "new           head/kernel: a fresh head",
        "pretrained on 224 x 160 pixels",
        "differs       config.model.norm_eps is 1e-06, the weights' is 1e-12: "
        "--config.model.norm_eps=1e-12 takes theirs",
    ]
