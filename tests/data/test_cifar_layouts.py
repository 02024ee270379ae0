"""The tables of CIFAR's official files agree with the files themselves."""

import hashlib

import pytest

from vit_jax.data.cifar_layouts import ARCHIVE_LENGTHS, OFFICIAL


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_every_layout_names_its_files(name):
    official = OFFICIAL[name]
    assert ARCHIVE_LENGTHS.keys() >= {official.url.rpartition("/")[2]}
    for layout in official.layouts:
        read = {*layout.train, *layout.test, *layout.names.values()}
        assert layout.files == read >= layout.expected.keys()
        assert layout.expected.keys() >= {*layout.train, *layout.test}


def layout_of(name, folder):
    (layout,) = (x for x in OFFICIAL[name].layouts if x.folder == folder)
    return layout


def test_sums_are_those_of_the_python_files(cifar10_dir):
    layout = layout_of("cifar10", "cifar-10-batches-py")
    assert layout.expected.keys() == layout.files
    for name, md5 in layout.expected.items():
        assert hashlib.md5((cifar10_dir / name).read_bytes()).hexdigest() == md5, name


def test_lengths_are_those_of_the_binary_files(cifar100_dir):
    layout = layout_of("cifar100", "cifar-100-binary")
    for name, length in layout.expected.items():
        assert (cifar100_dir / name).stat().st_size == length, name
    for name in layout.names.values():
        assert (cifar100_dir / name).is_file()
