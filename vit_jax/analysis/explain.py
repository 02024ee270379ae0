"""Heat maps of what a model looks at, their faithfulness, and the figures of both."""

import argparse
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib.figure import Figure

from vit_jax.analysis.predict import finite_probabilities
from vit_jax.analysis.report import report_folder, selected_on
from vit_jax.analysis.run_data import MAX_IMAGES, load_splits, read_split
from vit_jax.errors import UserError
from vit_jax.figures import attention as attention_figures
from vit_jax.figures import embedding, style
from vit_jax.files import make_folder
from vit_jax.interpret import (
    attention,
    faithfulness,
    gradcam,
    inputs,
    relevance,
    weights,
)
from vit_jax.models import ResNet, ViT, backend, memory
from vit_jax.parallel import mesh as meshes
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_classifier
from vit_jax.runs.run import Run
from vit_jax.training.progress import waiting

Maps = dict[str, Float[np.ndarray, "n rows columns"]]
Images = UInt8[np.ndarray, "n height width channels"]

# Number of images in a figure, one in each row.
SHOWN_IMAGES = 6
# Options of the maps of a ViT, and their defaults.
_OF_A_VIT = {"block": None, "head": None, "head_fusion": "mean", "discard_ratio": 0}


def explain_vit(
    run: Run,
    images: Images,
    classes: Int[np.ndarray, " n"],
    picture: UInt8[np.ndarray, "h w c"],
    caption: str,
    *,
    block: int | None = None,
    head: int | None = None,
    head_fusion: str = "mean",
    discard_ratio: float = 0.0,
) -> tuple[Maps, dict[str, Figure]]:
    """Heat maps by name, and the figures that only a ViT has, by file name.

    The maps are the attention of one block, rollout and relevance.

    Args:
      classes: that relevance explains.
      picture, caption: of the first image, the only one whose heads are shown.
      block: whose attention, from 1; None: the last.
      head: whose attention, from 1; None: the mean of all.
      head_fusion, discard_ratio: see `attention.rollout`.
    """
    _require_memory(run, len(images))
    seen = attention.read_attention(run, images)
    by_head = seen.maps()
    block = block or run.model.depth
    name, chosen = f"attention, block {block}", by_head[:, block - 1]
    if head is None:
        chosen = chosen.mean(axis=1)
    else:
        name, chosen = f"{name}, head {head}", chosen[:, head - 1]
    maps = {
        name: chosen,
        "rollout": attention.rollout_maps(
            seen, head_fusion=head_fusion, discard_ratio=discard_ratio
        ),
        "relevance": relevance.relevance_maps(run, images, classes, seen),
    }
    # In pixels of the images themselves, which the model may see resized.
    scale = np.divide(run.image_shape[:2], run.input_shape[:2])
    size = run.model.patch_size * scale
    figures = {
        "attention_by_head": attention_figures.by_block_and_head(
            picture,
            by_head[0],
            title="Attention by block and head\n" + caption.replace("\n", " "),
        ),
        "attention_distance": attention_figures.mean_distances(
            attention.mean_distances(seen, size),
            even=float(attention.patch_distances(seen.grid, size).mean()),
        ),
    }
    similarity = weights.position_similarity(run)
    if similarity is not None:
        figures["position_similarity"] = embedding.position_similarity(similarity)
    return maps, figures


def _require_memory(run: Run, num_images: int) -> None:
    """Refuses images whose attention weights and gradients would not fit."""
    model = run.model
    height, width, _ = run.input_shape
    num_patches = (height // model.patch_size) * (width // model.patch_size)
    num_tokens = num_patches + model.num_prefix_tokens
    each = 4 * model.depth * model.num_heads * num_tokens**2
    # They are there by block and of all blocks together; on a CPU so are gradients.
    copies = 4 if backend.platform() == "cpu" else 2
    needs = {f"attention in {num_images} images": copies * each * num_images}
    memory.require_memory(needs, meshes.free_bytes(jax.local_devices()[:1]))


def explain_resnet(
    run: Run, images: Images, classes: Int[np.ndarray, " n"]
) -> tuple[Maps, dict[str, Figure]]:
    """Grad-CAM of the last two stages, and the figure of feature maps, by file name."""
    last = len(run.model.stage_sizes)
    maps = {
        f"Grad-CAM, stage {stage}": gradcam.grad_cam(run, images, classes, stage)
        for stage in range(max(1, last - 1), last + 1)
    }
    features = gradcam.feature_maps(run, images[:1])
    early = {name: maps[0] for name, maps in list(features.items())[:3]}
    return maps, {"feature_maps": embedding.feature_maps(images[0], early)}


def explain_images(
    run: Run,
    images: Images,
    captions: Sequence[str],
    pictures: Sequence[UInt8[np.ndarray, "h w c"]] | Images,
    **map_options: Any,
) -> tuple[dict[str, dict[str, float]], dict[str, Figure]]:
    """Faithfulness of each kind of heat map, and all figures by file name.

    Args:
      images: as the model takes them.
      pictures: what the maps of the first images are drawn over, of any size.
      **map_options: those of `explain_vit`; a ResNet has none.
    """
    probabilities = finite_probabilities(run, images)
    classes = probabilities.argmax(axis=1)
    short = style.short_names(run.class_names)
    captions = [
        f"{caption},\npredicted {short[index]} ({probability:.0%})"
        for caption, index, probability in zip(
            captions, classes, probabilities.max(axis=1), strict=True
        )
    ]
    if isinstance(run.model, ViT):
        maps, figures = explain_vit(
            run, images, classes, pictures[0], captions[0], **map_options
        )
    else:
        maps, figures = explain_resnet(run, images, classes)
    fill = (255 * np.array(run.config.data.mean)).round().astype(np.uint8)
    predict = functools.partial(run.predict, calibrated=True)
    curves, scores = faithfulness.compare(predict, images, maps, classes, fill)
    shown = slice(0, SHOWN_IMAGES)
    figures["heat_maps"] = attention_figures.overlays(
        pictures[shown],
        {name: values[shown] for name, values in maps.items()},
        captions[shown],
        title="What the model looks at",
    )
    figures["faithfulness"] = attention_figures.deletion_insertion(
        faithfulness.FRACTION,
        {k: faithfulness.mean_and_error(one.deletion) for k, one in curves.items()},
        {k: faithfulness.mean_and_error(one.insertion) for k, one in curves.items()},
        title=f"Does the model use what the map marks? (images: {len(images)})",
    )
    figures["stem_filters"] = embedding.patch_filters(weights.stem_filters(run))
    return scores, figures


def _refuse_idle(
    options: argparse.Namespace, run: Run, moved: Mapping[str, str]
) -> None:
    """Refuses options that would have no effect."""
    if options.files and moved:
        flag = next(iter(moved)).replace(".", "_")
        raise UserError(f"--{flag} is for the run's data, not for files; leave it out.")
    of_a_split = {"indices": None, "split": "test"}
    for usual, is_idle, reason in (
        (_OF_A_VIT, not isinstance(run.model, ViT), "is for ViTs, and this is none"),
        (of_a_split, bool(options.files), "chooses images of a split, not files"),
    ):
        for name, value in usual.items():
            if is_idle and getattr(options, name) != value:
                raise UserError(f"--{name} {reason}; leave it out.")


def _require_block_and_head(options: argparse.Namespace, model: ViT) -> None:
    for name, count in (("block", model.depth), ("head", model.num_heads)):
        value = getattr(options, name)
        if value is not None and not 1 <= value <= count:
            raise UserError(
                f"--{name} is {value}, but this model has {count}; give 1 to {count}."
            )


def _require_few(num_images: int) -> None:
    if not 0 < num_images <= MAX_IMAGES:
        raise UserError(
            f"There are {num_images} images to explain; give 1 to {MAX_IMAGES}."
        )


def explain(options: argparse.Namespace, moved: Mapping[str, str]) -> int:
    """Explains a run's predictions for images: draws, scores, stores and prints.

    For `moved` see `run_data.load_splits`. It returns 1 if a file was skipped, else 0.

    Raises:
      UserError: too few or too many images, options that do not fit the model, or a
        model that is neither a ViT nor a ResNet.
    """
    if not 0 <= options.discard_ratio < 1:
        raise UserError(
            f"--discard_ratio is {options.discard_ratio:g}, but must be at least 0 and "
            "below 1."
        )
    run = load_classifier(options.workdir, options.checkpoint)
    if not isinstance(run.model, ViT | ResNet):
        raise UserError(
            f"The model of {run.workdir.name} is a {type(run.model).__name__}, but "
            "explain has heat maps for ViTs and ResNets only; evaluate, predict and "
            "compare take any model."
        )
    RunFolder(run.workdir).create()
    _refuse_idle(options, run, moved)
    if isinstance(run.model, ViT):
        _require_block_and_head(options, run.model)
    wanted = inputs.find_images(options.files)
    if wanted:
        _require_few(len(wanted))
        read = list(inputs.read_images(wanted, run.image_shape))
        files, images = [file for file, _ in read], np.array([x for _, x in read])
        captions = style.short_names([file.name for file in files], 22)
        pictures = [
            inputs.read_photo(file, run.image_shape) for file in files[:SHOWN_IMAGES]
        ]
    else:
        run, splits = load_splits(run, moved)
        captions, images = read_split(splits, options.split, options.indices)
        pictures = images
    _require_few(len(images))
    split = "files" if wanted else options.split
    folder = RunFolder(report_folder(RunFolder(run.workdir), run.step, split))
    make_folder(folder.figures, "--workdir")
    map_options = {name: getattr(options, name) for name in _OF_A_VIT}
    with waiting("computing heat maps, and how faithful they are"):
        scores, figures = explain_images(run, images, captions, pictures, **map_options)
    for name, figure in figures.items():
        print(style.save(figure, folder.figures / f"{name}.png"))
    folder.write(
        "explain",
        {
            "step": run.step,
            "selected_on": selected_on(run, RunFolder(run.workdir).read_results()),
            "num_images": len(images),
            "faithfulness": scores,
        },
    )
    print(to_text(scores, len(images)))
    return int(len(images) < len(wanted))


def to_text(scores: Mapping[str, Mapping[str, float]], num_images: int) -> str:
    """Areas under the curves in lines for a terminal.

    The difference to the random maps stands in brackets.
    """
    width = max(map(len, scores))
    lines = [
        f"Faithfulness (images: {num_images}): area under the curve (minus that of",
        "random maps on the same images, ± standard error)",
        f"  {'':<{width}}  {'deletion (low is good)':<25}  insertion (high is good)",
    ]
    for name, score in scores.items():
        cells = []
        for key in ("deletion", "insertion"):
            cell = f"{score[key]:.3f}"
            if not name.startswith("random"):
                difference = score[f"{key}_minus_random"]
                error = score[f"{key}_minus_random_error"]
                # A single image has no standard error.
                spread = "" if math.isnan(error) else f" ± {error:.3f}"
                cell += f" ({difference:+.3f}{spread})"
            cells.append(cell)
        lines.append(f"  {name:<{width}}  {cells[0]:<25}  {cells[1]}")
    return "\n".join(lines)
