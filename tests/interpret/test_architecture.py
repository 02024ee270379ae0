"""The drawing of a network: what it says of the module, and the command for it."""

import functools
import pathlib
import shutil

import jax
import numpy as np
import pytest

from vit_jax import data, explain, models
from vit_jax.config import default_config, set_value
from vit_jax.errors import UserError
from vit_jax.figures import architecture as figures
from vit_jax.figures import style
from vit_jax.figures.architecture import Branch
from vit_jax.interpret.architecture import describe_architecture
from vit_jax.runs.load import load_run

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"


def describe(name, **settings):
    """(description, model) for CIFAR-10's images."""
    model = models.make_model(
        {"name": name, **settings},
        num_classes=10,
        image_shape=(32, 32, 3),
        dtype="float32",
    )
    return describe_architecture(model, (32, 32, 3)), model


def by_name(parts):
    return {part.name: part for part in parts}


def flat(block):
    """All parts of a block, those on shortcuts included."""
    for item in block:
        if isinstance(item, Branch):
            yield from item.parts
            yield from filter(None, [item.shortcut])
        else:
            yield item


@pytest.mark.parametrize(
    "name, settings",
    [
        ("vit_128x6_post_norm", {"depth": 2}),
        ("vit_192x12_patch_norm", {"depth": 2, "num_registers": 3}),
        ("cct_7", {"depth": 2}),
        ("vit", {"depth": 1, "distillation_token": True, "num_registers": 1}),
        ("vit", {"depth": 1, "stem": "shifted_patch", "local_attention": True}),
        (
            "vit",
            {"depth": 2, "qk_norm": True, "layer_scale": 0.1, "pooling": "mean"},
        ),
        ("resnet18", {}),
        ("resnet50", {}),
    ],
)
def test_every_parameter_is_in_one_part(name, settings):
    described, model = describe(name, **settings)
    init = functools.partial(models.init_variables, model, image_shape=(32, 32, 3))
    params = jax.eval_shape(init, jax.random.key(0))["params"]
    assert sum(p.num_params for p in described.parts) == models.count_params(params)
    block = "block0" if "block0" in params else "stage2_block1"
    opened = sum(part.num_params for part in flat(described.block))
    assert opened == models.count_params(params[block])
    # What enters the block is what reaches the part that it belongs to.
    assert described.block_input == described.parts[described.opened - 1].output
    assert described.block[-1].output == described.parts[described.opened].output


def test_a_vit_from_image_to_classes():
    described, _ = describe("vit_192x9")
    # The counts are those of the study that had this model.
    assert [(p.name, p.output, p.num_params) for p in described.parts] == [
        ("Image", "32 × 32 × 3", 0),
        ("Patch embedding", "8 × 8 × 192", 9_408),
        ("Tokens", "64 tokens × 192", 0),
        ("Class token", "65 tokens × 192", 192),
        ("Positions", "65 tokens × 192", 12_480),
        ("Encoder block × 9", "65 tokens × 192", 4_003_776),
        ("Final LayerNorm", "65 tokens × 192", 384),
        ("Class token", "192", 0),
        ("Head", "10 logits", 1_930),
        ("Classes", "", 0),
    ]
    assert described.parts[1].lines == ("4 × 4 pixels each: linear, 48 → 192",)
    assert described.parts[5].lines == ("pre-norm", "444,864 parameters each")
    attention, mlp = described.block
    names = ["LayerNorm", "Queries, keys, values", "Self-attention", "Projection"]
    assert [part.name for part in attention.parts] == names
    assert [part.output for part in attention.parts] == [
        "65 tokens × 192",
        "65 tokens × 3 × 8 × 24",
        "65 tokens × 8 × 24",
        "65 tokens × 192",
    ]
    assert attention.parts[2].lines == ("8 heads of width 24", "softmax(Q Kᵀ / √24) V")
    assert attention.shortcut is None
    assert [part.lines for part in mlp.parts[1:]] == [
        ("linear, 192 → 768, GELU",),
        ("linear, 768 → 192",),
    ]
    (note,) = described.notes
    assert "dropout on attention weights 0.1" in note and "depth" not in note


def test_settings_change_the_drawing():
    described, _ = describe("vit_128x6_post_norm", depth=2, activation="relu")
    attention, norm1, mlp, norm2 = described.block
    assert norm1.name == norm2.name == "LayerNorm"
    assert attention.parts[0].name == "Queries, keys, values"
    assert mlp.parts[0].lines == ("linear, 128 → 512, ReLU",)
    assert described.block_title == "Encoder block, post-norm"
    assert "Final LayerNorm" not in by_name(described.parts)

    described, _ = describe(
        "vit",
        depth=2,
        num_registers=3,
        qkv_bias=False,
        qk_norm=True,
        local_attention=True,
        layer_scale=0.1,
        position_embedding="sinusoidal_2d",
        pooling="mean",
    )
    parts = by_name(described.parts)
    assert parts["Registers"].output == "67 tokens × 192"
    assert parts["Positions"].lines == ("sines and cosines of row and column, added",)
    assert parts["Mean pooling"].num_params == parts["Positions"].num_params == 0
    opened = by_name(described.block[0].parts)
    assert opened["Queries, keys, values"].lines == (
        "linear, 192 → 3 × 3 × 64, no bias",
        "LayerNorm on queries and keys",
    )
    assert "learned factor" in opened["Self-attention"].lines[1]
    assert opened["Self-attention"].num_params == 3
    assert opened["LayerScale"].lines == ("one factor per channel, from 0.1",)
    assert described.notes == ()


def test_a_distillation_token_has_a_head():
    described, _ = describe("vit", depth=1, distillation_token=True)
    parts = by_name(described.parts)
    assert parts["Distillation token"].output == "66 tokens × 192"
    assert parts["Positions"].num_params == 66 * 192
    assert parts["Class and distillation token"].output == "2 tokens × 192"
    assert parts["Two heads"].lines == ("linear, 192 → 10 each", "their mean")
    assert parts["Two heads"].num_params == 2 * 1_930


def test_a_convolutional_stem_layer_by_layer():
    stem = {"depth": 1, "stem": "conv", "stem_channels": (64,), "patch_size": 2}
    described, _ = describe("vit", **stem, stem_downsampling="stride")
    assert [(p.lines, p.output) for p in described.parts[1:3]] == [
        (("3 → 64 channels", "ReLU"), "32 × 32 × 64"),
        (("64 → 192 channels, stride 2", "ReLU"), "16 × 16 × 192"),
    ]
    described, _ = describe("vit", **stem, stem_downsampling="max_pool")
    assert [(p.name, p.output) for p in described.parts[1:4]] == [
        ("3 × 3 convolution", "32 × 32 × 64"),
        ("3 × 3 convolution", "32 × 32 × 192"),
        ("3 × 3 max pooling", "16 × 16 × 192"),
    ]
    normalised = {"stem_norm": "batch", "stem_downsampling": "avg_pool"}
    described, _ = describe("vit", **(stem | normalised))
    assert [(p.name, p.lines, p.output) for p in described.parts[1:4]] == [
        ("3 × 3 convolution", ("3 → 64 channels", "BatchNorm, ReLU"), "32 × 32 × 64"),
        ("2 × 2 average pooling", ("stride 2",), "16 × 16 × 64"),
        ("1 × 1 convolution", ("64 → 192 channels",), "16 × 16 × 192"),
    ]


def test_a_resnet_stage_by_stage():
    described, _ = describe("resnet18")
    assert [(p.name, p.output, p.num_params) for p in described.parts] == [
        ("Image", "32 × 32 × 3", 0),
        ("3 × 3 convolution", "32 × 32 × 64", 1_856),
        ("Stage 1: residual block × 2", "32 × 32 × 64", 147_968),
        ("Stage 2: residual block × 2", "16 × 16 × 128", 525_568),
        ("Stage 3: residual block × 2", "8 × 8 × 256", 2_099_712),
        ("Stage 4: residual block × 2", "4 × 4 × 512", 8_393_728),
        ("Global average pooling", "512", 0),
        ("Head", "10 logits", 5_130),
        ("Classes", "", 0),
    ]
    assert described.parts[described.opened].name.startswith("Stage 2")
    branch, relu = described.block
    assert [part.lines for part in branch.parts] == [
        ("64 → 128 channels, stride 2", "BatchNorm, ReLU"),
        ("128 → 128 channels", "BatchNorm"),
    ]
    assert branch.shortcut.lines == ("64 → 128 channels, stride 2", "BatchNorm")
    assert branch.shortcut.name == "1 × 1 convolution" and relu.name == "ReLU"
    # A first stage needs no projection.
    model = models.ResNet(num_classes=3, stage_sizes=(1,), width=8)
    described = describe_architecture(model, (8, 8, 1))
    assert described.block[0].shortcut is None
    assert described.parts[-2].output == "3 logits"


@pytest.mark.parametrize(
    "name, settings", [("vit_192x9", {"depth": 2}), ("resnet50", {})]
)
def test_the_figure_says_all_of_it(tmp_path, name, settings):
    described, _ = describe(name, **settings)
    figure = figures.architecture(described, title="x" * 100)
    path = style.save(figure, tmp_path / "a.png")
    assert path.stat().st_size > 30_000
    (axes,) = figure.axes
    shown = [text.get_text() for text in axes.texts]
    for part in (*described.parts, *flat(described.block)):
        for text in (part.name, *part.lines, part.output):
            assert text in shown
        assert not part.num_params or f"{part.num_params:,}" in shown
    assert described.block_title in shown and described.block_input in shown
    assert shown.count("+") == sum(isinstance(i, Branch) for i in described.block)
    # Nothing sticks out of the figure, and an inch of the drawing is one inch.
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    for text in (*axes.texts, figure.texts[0]):
        box = text.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= width and 0 <= box.y0 <= box.y1 <= height
    (x0, _), (x1, _) = axes.transData.transform([(0, 0), (1, 0)])
    assert x1 - x0 == pytest.approx(figure.dpi, rel=0.1)


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
    assert titles[0].startswith(f"run: {num_params:,} parameters, ")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--architecture"], "either --config or --workdir"),
        (["--architecture", "--config=a.py", "--workdir=r"], "either --config or"),
        (["--architecture", "--config=a.py", "x.png"], "no FILE"),
        (["--architecture", "--config=a.py"], "no config file a.py"),
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


def known_shape(**settings):
    config = default_config()
    for key, value in settings.items():
        set_value(config, f"data.{key}", value)
    return data.known_shape(config.data)


def test_known_shapes():
    assert known_shape() == ((32, 32, 3), 10)
    assert known_shape(name="cifar100", source="cifar_files") == ((32, 32, 3), 100)
    assert known_shape(name="cifar100_coarse")[1] == 20
    assert known_shape(image_size=48) == ((48, 48, 3), 10)
    assert known_shape(name="svhn_cropped") is known_shape(source="folder") is None
    digits = data.from_digits.load()["train"]
    shape, num_classes = known_shape(source="digits")
    assert digits.images.shape[1:] == shape
    assert len(np.unique(digits.labels)) == num_classes


def test_known_shapes_are_those_of_the_files(cifar10_dir):
    config = default_config()
    set_value(config, "data.source", "cifar_files")
    set_value(config, "data.dir", str(cifar10_dir))
    test = data.load(config.data)["test"]
    assert data.known_shape(config.data) == (test.images.shape[1:], test.num_classes)
