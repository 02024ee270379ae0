"""The official files of CIFAR-10 and CIFAR-100 (Krizhevsky 2009), as tables.

https://www.cs.toronto.edu/~kriz/cifar.html describes both layouts. In the binary one an
image is one record: its label bytes, then 3072 bytes, the 32x32 planes of red, green
and blue. The python layout has the same rows of 3072 bytes in pickles, with the labels
beside them.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Layout:
    """The files of one layout.

    Attributes:
      folder: name of the folder that holds them, also inside the archive.
      train, test: the files of each split, in order.
      names: the file with the class names for each kind of label. The kinds are in the
        order of a record's label bytes. They are prefixes: "fine_" has its labels under
        the key "fine_labels" and its names under "fine_label_names".
      expected: the MD5 of a python file, or the length in bytes of a binary one.
    """

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: dict[str, str]
    expected: dict[str, str | int]

    @property
    def files(self) -> frozenset[str]:
        """The names of all files that are read."""
        return frozenset((*self.train, *self.test, *self.names.values()))

    @property
    def is_binary(self) -> bool:
        """Whether it is the binary layout, else the python one."""
        return self.train[0].endswith(".bin")


@dataclasses.dataclass(frozen=True)
class Official:
    """A dataset: its layouts, best first, and the archive to download."""

    layouts: tuple[Layout, ...]
    url: str
    md5: str


_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
_BINARY_BATCHES = tuple(f"{name}.bin" for name in _BATCHES)
_CIFAR10_LAYOUTS = (
    Layout(
        folder="cifar-10-batches-py",
        train=_BATCHES,
        test=("test_batch",),
        names={"": "batches.meta"},
        expected={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
    ),
    Layout(
        folder="cifar-10-batches-bin",
        train=_BINARY_BATCHES,
        test=("test_batch.bin",),
        names={"": "batches.meta.txt"},
        expected=dict.fromkeys((*_BINARY_BATCHES, "test_batch.bin"), 10_000 * 3073),
    ),
)
_CIFAR100_LAYOUTS = (
    Layout(
        folder="cifar-100-python",
        train=("train",),
        test=("test",),
        names={"coarse_": "meta", "fine_": "meta"},
        expected={
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "7973b15100ade9c7d40fb424638fde48",
        },
    ),
    Layout(
        folder="cifar-100-binary",
        train=("train.bin",),
        test=("test.bin",),
        names={
            "coarse_": "coarse_label_names.txt",
            "fine_": "fine_label_names.txt",
        },
        expected={"train.bin": 50_000 * 3074, "test.bin": 10_000 * 3074},
    ),
)

OFFICIAL: dict[str, Official] = {
    "cifar10": Official(
        _CIFAR10_LAYOUTS,
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
    ),
    "cifar100": Official(
        _CIFAR100_LAYOUTS,
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
    ),
}

# Lengths in bytes, to tell a cut-off archive from a whole one.
ARCHIVE_LENGTHS = {
    "cifar-10-python.tar.gz": 170_498_071,
    "cifar-10-binary.tar.gz": 170_052_171,
    "cifar-100-python.tar.gz": 169_001_437,
    "cifar-100-binary.tar.gz": 168_513_733,
}
