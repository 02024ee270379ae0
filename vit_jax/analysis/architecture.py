"""Draws the network of a config or of a run."""

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from vit_jax import augment, data, models
from vit_jax.config import (
    apply_overrides,
    check_config,
    load_config_file,
    make_config,
)
from vit_jax.errors import UserError
from vit_jax.figures import architecture as architecture_figures
from vit_jax.figures import style
from vit_jax.files import make_folder, user_path
from vit_jax.interpret import architecture
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.user_code import add_code_of_run, add_user_code

# The options of `vit_jax.explain` that a drawing has.
_OWN = ("architecture", "config", "workdir", "figures", "files")


def choose_network(
    options: argparse.Namespace, overrides: Sequence[str], usual: Mapping[str, Any]
) -> tuple[str, ConfigDict, tuple[int, int, int], int]:
    """(name, config, image shape, number of classes) of what the options name.

    Args:
      usual: the command's options, by name, as they are unless they are given.

    Raises:
      UserError: not exactly one of both, settings that are refused, or a dataset whose
        shape is only known from its files.
    """
    for setting in overrides:
        if options.files and setting.startswith("--config.") and "=" not in setting:
            raise UserError(
                f"{setting} needs its value behind an equals sign beside "
                f"--architecture: {setting}=VALUE."
            )
    if bool(options.config) == bool(options.workdir) or options.files:
        raise UserError(
            "--architecture draws one network and no images; give either --config or "
            "--workdir, and no FILE."
        )
    for name, value in usual.items():
        if name not in _OWN and getattr(options, name) != value:
            raise UserError(
                f"--{name} has no effect on the drawing of --architecture; leave it "
                "out."
            )
    flags = [f"--{name}" for name in usual]
    if options.workdir:
        folder = RunFolder(options.workdir)
        config = make_config(folder.read("config"))
        add_code_of_run(config.code, config.code_sha256)
        apply_overrides(config, overrides, flags)
        if overrides:
            raise UserError(
                f"{overrides[0]} would change the network that was trained in "
                f"{folder.path.name}; leave it out, or give --config for --workdir."
            )
        dataset = folder.read_dataset()
        image_shape = tuple(dataset["image_shape"])
        return folder.path.name, config, image_shape, len(dataset["class_names"])
    path, _, variant = options.config.partition(":")
    name = "_".join(filter(None, (pathlib.Path(path).stem, variant)))
    config = apply_overrides(load_config_file(options.config), overrides, flags)
    check_config(config)
    add_user_code(config.code)
    known = data.known_shape(config.data)
    if known is None:
        raise UserError(
            f"With config.data.source={config.data.source} and config.data.name="
            f"{data.dataset_name(config.data)}, only the data tell the shape of an "
            "image and the number of classes; start to train with this config, then "
            "give --workdir=RUN in place of --config."
        )
    return name, config, *known


def draw_architecture(
    options: argparse.Namespace, overrides: Sequence[str], usual: Mapping[str, Any]
) -> None:
    """Draws the network of a config, or of a run, and prints where the files are.

    See `choose_network` for the arguments.
    """
    name, config, image_shape, num_classes = choose_network(options, overrides, usual)
    if config.objective == "masked_autoencoding":
        raise UserError(
            f"{name} trains a masked autoencoder, of which there is no drawing; give "
            "--config.objective=classification with --config for the ViT whose encoder "
            "it trains."
        )
    image_shape = augment.input_shape(image_shape, config.data.resize)
    # Shapes do not depend on the type of the numbers.
    model = models.make_model(
        config.model, num_classes=num_classes, image_shape=image_shape, dtype="float32"
    )
    described = architecture.describe_architecture(model, image_shape)
    num_params = sum(part.num_params for part in described.parts)
    macs = models.count_macs(model, image_shape)
    figure = architecture_figures.architecture(
        described,
        title=f"{name}\n{num_params:,} parameters, {2e-9 * macs:.3g} GFLOPs per image",
    )
    stem = "architecture" if options.workdir else f"architecture_{name}"
    default = RunFolder(options.workdir).figures if options.workdir else pathlib.Path()
    folder = user_path(options.figures or default)
    make_folder(folder, "--figures")
    for suffix in ("png", "pdf"):
        print(style.save(figure, folder / f"{stem}.{suffix}"))
