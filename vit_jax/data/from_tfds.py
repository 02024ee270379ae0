"""Image-classification datasets of TensorFlow Datasets (TFDS).

A dataset that is prepared as array_record is read without TensorFlow. Preparing one
needs the extra `tfds`; CIFAR can be prepared offline from its official files.
"""

import itertools
import os
import pathlib
import re
import tempfile
import types
from collections.abc import Iterable
from typing import Any

import numpy as np
from tqdm import tqdm

from vit_jax.data import from_cifar_files
from vit_jax.data.cifar_layouts import OFFICIAL
from vit_jax.data.dataset import Dataset
from vit_jax.data.download import OFFLINE, requests_time_out
from vit_jax.data.from_cifar_files import find_archive, holds_files, read_records
from vit_jax.data.image_files import decode_image
from vit_jax.errors import UserError, did_you_mean, show
from vit_jax.files import user_path

# The splits that are read: their names in TFDS and in this package.
_SPLITS = {"train": "train", "validation": "val", "test": "test"}
# Records that are read at once; photos may have megabytes each.
_BATCH = 256


def load(
    name: str,
    data_dir: str = "",
    *,
    archive: str = "",
    download: bool = True,
    image_size: int | None = None,
) -> dict[str, Dataset]:
    """The splits of a TFDS dataset, prepared first if need be.

    Examples are sorted by their "id" if they have one. For CIFAR this is the official
    order, so that the arrays equal those of `from_cifar_files`. Other datasets keep the
    fixed order of TFDS.

    Args:
      name: as for `tfds.load`, such as "cifar10" or "imagenet_resized/32x32".
      data_dir: folder of prepared datasets; "": the default of TFDS.
      archive: folder or archive with the official CIFAR files to prepare from.
      download: whether data may be downloaded if the dataset is not prepared.
      image_size: side in pixels of the square that images are resized to; None: all
        images have the same size.

    Raises:
      UserError: the dataset is unknown, has no 8-bit images with one label each, cannot
        be prepared, or has images of different sizes while `image_size` is None.
    """
    if data_dir.startswith("~"):  # TFDS also takes gs://bucket
        data_dir = str(user_path(data_dir))
    builder = _find_prepared(name, data_dir)
    if builder is None:
        builder = prepare(name, data_dir, archive=archive, download=download)
    image_key, label_key = _check_features(builder, image_size)
    splits = {
        ours: _read_split(builder, theirs, image_key, label_key, image_size)
        for theirs, ours in _SPLITS.items()
        if theirs in builder.info.splits
    }
    if "train" not in splits:
        raise UserError(
            f"The TFDS dataset {name} has no train split, only "
            f"{', '.join(builder.info.splits)}; choose another one."
        )
    return splits


def _find_prepared(name: str, data_dir: str) -> Any:
    """The builder of a dataset that lies prepared on disk, or None."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import naming, read_only_builder

    try:
        naming.parse_builder_name_kwargs(name)
    except ValueError:  # `prepare` says that there is no such dataset.
        return None
    try:
        # Unlike tfds.builder, this runs no code of the dataset, which needs TensorFlow.
        return read_only_builder.builder_from_files(name, data_dir=data_dir or None)
    except tfds.core.DatasetNotFoundError:
        return None
    except (ImportError, MemoryError, OSError):
        raise
    except Exception as error:  # of a description that is cut off, of whatever kind
        place = data_dir or "the data folder of TFDS"
        raise UserError(
            f"The description of {name} in {place} is damaged ({error}); delete the "
            "folder of that dataset, so that it is prepared anew."
        ) from None


def prepare(name: str, data_dir: str, *, archive: str, download: bool) -> Any:
    """Writes a dataset as array_record below `data_dir` and returns its TFDS builder.

    The arguments and errors are those of `load`.
    """
    import tensorflow_datasets as tfds

    dataset = re.split("[/:]", name)[0]
    known = tfds.list_builders(with_community_datasets=False)
    if name in from_cifar_files.NAMES and dataset not in known:
        raise UserError(
            f"TFDS has no dataset {name}; set config.data.source=cifar_files for it."
        )
    if dataset not in known:
        raise UserError(
            f"TFDS has no dataset {show(dataset)}{did_you_mean(dataset, known)}; see "
            "https://www.tensorflow.org/datasets/catalog for its names."
        )
    if archive and dataset not in OFFICIAL:
        raise UserError(
            f"config.data.archive can prepare {' and '.join(OFFICIAL)}, not {dataset}; "
            "remove it, or read your own files with config.data.source=folder."
        )
    if (
        dataset in OFFICIAL
        and not archive
        and data_dir
        and holds_files(pathlib.Path(data_dir), dataset)
    ):
        raise UserError(
            f"{data_dir} holds the official files of {dataset}, not the dataset as "
            "TFDS prepares it; read them with --config.data.source=cifar_files, or "
            f"prepare it from them with --config.data.archive={data_dir}."
        )
    if not archive and not download:
        raise UserError(
            f"The TFDS dataset {name} is not prepared in "
            f"{data_dir or 'the usual place'} and config.data.download is False; allow "
            f"the download, or, {OFFLINE}."
        )
    _hide_accelerators(name)
    try:
        builder = tfds.builder(name, data_dir=data_dir or None)
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"TFDS has no dataset {show(name)} ({' '.join(str(error).split())}); see "
            "https://www.tensorflow.org/datasets/catalog for its configs and versions."
        ) from error
    if dataset in OFFICIAL:
        # `find_archive` downloads with a time-out, resumes, and checks a hash.
        local = user_path(archive) if archive else None
        _prepare_cifar(builder, local or find_archive(dataset, download))
    else:
        _download_and_prepare(builder)
    return builder


def _download_and_prepare(builder: Any) -> None:
    import tensorflow_datasets as tfds

    try:
        with requests_time_out():
            builder.download_and_prepare(file_format="array_record")
    except (OSError, AssertionError, tfds.download.DownloadError) as error:
        raise UserError(
            f"TFDS cannot prepare {builder.name} ({error}); try again later, or, "
            f"{OFFLINE}."
        ) from error


def _hide_accelerators(name: str) -> None:
    """Imports TensorFlow without accelerators, whose memory JAX needs."""
    # TensorFlow otherwise announces oneDNN on standard error; it only decodes here.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    try:
        import importlib_resources  # noqa: F401 (TFDS imports it later)
        import tensorflow as tf
    except ImportError as error:
        raise UserError(
            f"The TFDS dataset {name} cannot be prepared, or read in another format "
            f"than array_record, without TensorFlow ({error}); `pip install "
            "tensorflow-cpu importlib_resources`, which the extra tfds has, or use "
            "config.data.source=cifar_files, folder or digits."
        ) from error
    for kind in ("GPU", "TPU"):
        tf.config.set_visible_devices([], kind)


def _prepare_cifar(builder: Any, path: pathlib.Path) -> None:
    """Runs the preparation of TFDS on local files of either layout."""
    splits, class_names = read_records(path, builder.name)
    layout = OFFICIAL[builder.name].layouts[-1]  # Binary: what TFDS reads.
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root) / layout.folder
        folder.mkdir()
        for split, files in (("train", layout.train), ("test", layout.test)):
            rows = np.split(splits[split], len(files))
            for file, part in zip(files, rows, strict=True):
                part.tofile(folder / file)
        for kind, file in layout.names.items():
            (folder / file).write_text("\n".join(class_names[kind]) + "\n")
        # The unpacked folder is all that this builder needs from a download manager.
        manager = types.SimpleNamespace(download_and_extract=lambda url: root)
        split_generators = builder._split_generators
        builder._split_generators = lambda dl_manager: split_generators(manager)
        _download_and_prepare(builder)


def _check_features(builder: Any, image_size: int | None) -> tuple[str, str]:
    """The keys of the image and of the label in an example."""
    import tensorflow_datasets as tfds

    features = builder.info.features
    keys = (builder.info.supervised_keys or ("image", "label"))[:2]
    image, label = (dict(features).get(key) for key in keys)
    if not (
        isinstance(image, tfds.features.Image)
        and isinstance(label, tfds.features.ClassLabel)
        and image.np_dtype == np.uint8
        and image.shape[-1] in (1, 3)
    ):
        raise UserError(
            f"The TFDS dataset {builder.name} has no 8-bit grey or RGB image with one "
            f"class label (its features: {', '.join(features)}); choose another one."
        )
    if None in image.shape and image_size is None:
        raise UserError(
            f"The images of the TFDS dataset {builder.name} have different sizes; set "
            "config.data.image_size to a side in pixels, to which all are resized."
        )
    return keys


def _read_split(
    builder: Any, split: str, image_key: str, label_key: str, image_size: int | None
) -> Dataset:
    images, labels, ids = [], [], []
    expected = builder.info.splits[split].num_examples
    num_channels = builder.info.features[image_key].shape[-1]
    title = f"Reading {builder.name} {split}"
    try:
        examples = _open_split(builder, split, image_key)
        for example in tqdm(examples, title, expected, disable=None):
            if not (stored := example[image_key]):
                raise ValueError(f"example {len(images)} has no image")
            images.append(decode_image(stored, num_channels, image_size))
            labels.append(example[label_key])
            ids.append(example.get("id"))
        if len(images) != expected:
            raise ValueError(f"{len(images)} examples, expected {expected}")
    except (UserError, MemoryError):
        raise
    except ImportError as error:  # array_record, which TFDS asks for on Linux only
        raise UserError(
            f"The TFDS dataset in {builder.data_dir} cannot be read ({error}); install "
            "what is missing, or use config.data.source=cifar_files, folder or digits."
        ) from error
    except Exception as error:
        # The readers of array_record, protocol buffers, images and TensorFlow's formats
        # raise different exceptions for damaged files, with no common base class.
        raise UserError(
            f"The prepared TFDS dataset in {builder.data_dir} is damaged ({error}); "
            "delete that folder and run again to prepare it anew."
        ) from error
    names = tuple(builder.info.features[label_key].names)
    dataset = Dataset(np.stack(images), np.array(labels, np.int32), names)
    if not isinstance(ids[0], bytes):
        return dataset
    return dataset.select(np.argsort(np.array(ids), kind="stable"))


def _open_split(builder: Any, split: str, image_key: str) -> Iterable[Any]:
    """The examples of a split, with images as they are stored."""
    import tensorflow_datasets as tfds

    stored = {image_key: tfds.decode.SkipDecoding()}
    try:
        source = builder.as_data_source(split, decoders=stored)
    except NotImplementedError:  # Prepared earlier, in a format such as tfrecord.
        _hide_accelerators(builder.name)
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        examples = builder.as_dataset(
            split=split, read_config=in_order, shuffle_files=False, decoders=stored
        )
        return tfds.as_numpy(examples)
    # A call for one record costs as much as one for many.
    every = range(len(source))
    batches = (every[start : start + _BATCH] for start in every[::_BATCH])
    return itertools.chain.from_iterable(map(source.__getitems__, batches))
