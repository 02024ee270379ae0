"""The tables of CIFAR's official files."""

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
