"""Files of torch.save without PyTorch, and those that PyTorch itself writes."""

import argparse
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from tests.pretrained.damaged_files import TENSORS, npz, refusal
from tests.pretrained.weight_files import numpy_vit, timm_tensors
from vit_jax.pretrained import read_weights


class _Code:
    def __reduce__(self):
        return os.system, ("touch RAN",)


def tensor_pickle(shape, strides, *, offset=0, length=6, kind=b"FloatStorage"):
    """The pickle of {"a": tensor}, as torch.save writes it."""

    def integers(*numbers):
        packed = (b"J" + struct.pack("<i", n) for n in numbers)
        return b"(" + b"".join(packed) + b"t"

    def text(word):
        return b"X" + struct.pack("<I", len(word)) + word

    return (
        b"\x80\x02}" + text(b"a") + b"ctorch._utils\n_rebuild_tensor_v2\n("
        b"(" + text(b"storage") + b"ctorch\n" + kind + b"\n" + text(b"0")
        + text(b"cpu") + b"J" + struct.pack("<i", length) + b"tQ"
        + b"J" + struct.pack("<i", offset) + integers(*shape) + integers(*strides)
        + b"\x89}tRs."
    )  # fmt: skip


def pth(path, pickled, **options):
    data = TENSORS["a"].tobytes()
    members = {"archive/data.pkl": pickled, "archive/data/0": data}
    return npz(path, members, **options)


def test_pth_is_read_without_pytorch(tmp_path):
    path = pth(tmp_path / "x.pth", tensor_pickle((3, 2), (1, 3)))
    weights = read_weights(path)
    assert weights.format == "pth"
    np.testing.assert_array_equal(weights.tensors["a"], TENSORS["a"].T)


def test_a_pickle_with_code_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = pth(tmp_path / "x.pth", pickle.dumps({"a": _Code()}, protocol=2))
    assert '"posix.system"' in refusal(path)
    assert not (tmp_path / "RAN").exists()


@pytest.mark.parametrize(
    "pickled, words",
    [
        (tensor_pickle((2, 4), (4, 1)), "does not fit"),
        (tensor_pickle((2, 3), (3, 1), offset=1), "does not fit"),
        (tensor_pickle((2, 3), (3, 1), offset=-1), "does not fit"),
        (tensor_pickle((2, 3), (-3, 1)), "does not fit"),
        (tensor_pickle((2, 3), (3, 1), length=7), "does not fit"),
        (tensor_pickle((2**30, 2**30), (0, 0)), "declares tensors of"),
        (tensor_pickle((2,), (1,), kind=b"ComplexFloatStorage"), "ComplexFloat"),
        # An index into the memo for which Python would allocate 34 GB.
        (b"\x80\x02}r\xff\xff\xff\xff.", "LONG_BINPUT (4294967295)"),
        (pickle.dumps({"a": 1}, protocol=4), "opcode FRAME"),
        (pickle.dumps({"epoch": 1}, protocol=2), "holds ['epoch']"),
        (pickle.dumps([1], protocol=2), "holds list"),
        (b"\x80\x02}", "damaged"),
        # The pickle sets an attribute of a function.
        (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00ak\x00sb.",
            "opcode",
        ),
    ],
)
def test_bad_pth_is_refused(pickled, words, tmp_path):
    assert words in refusal(pth(tmp_path / "x.pth", pickled))


def test_pth_of_absurd_or_compressed_members_is_refused(tmp_path):
    pickled = tensor_pickle((2, 3), (3, 1))
    path = pth(tmp_path / "x.pth", pickled, compression=zipfile.ZIP_DEFLATED)
    assert "compressed" in refusal(path)
    content = bytearray(pth(path, pickled).read_bytes())
    # The size of the last member in the zip's directory.
    at = content.rindex(b"PK\x01\x02") + 24
    content[at : at + 4] = struct.pack("<I", 2**31)
    path.write_bytes(content)
    assert "declares 2,147,483," in refusal(path)


@pytest.mark.slow
class TestPyTorchsOwnFiles:
    torch = property(lambda self: pytest.importorskip("torch"))

    def save(self, content, path, **options):
        self.torch.save(content, path, **options)
        return path

    def test_views_types_and_parameters(self, tmp_path):
        torch = self.torch
        whole = torch.arange(24.0).reshape(4, 6)
        tensors = {
            "transposed": whole.T,
            "part": torch.arange(24.0).reshape(4, 6)[1:3, ::2],
            "bfloat16": torch.arange(4).to(torch.bfloat16),
            "half": torch.arange(4).half(),
            "long": torch.tensor(7),
            "parameter": torch.nn.Parameter(torch.ones(2, 2)),
        }
        path = self.save(tensors, tmp_path / "x.pth")
        for name, array in read_weights(path).tensors.items():
            expected = tensors[name].detach().double().numpy()
            np.testing.assert_array_equal(np.asarray(array, float), expected)

    def test_dinos_checkpoint(self, tmp_path):
        torch = self.torch
        state = {
            f"module.backbone.{name}": torch.tensor(np.ascontiguousarray(array))
            for name, array in timm_tensors(numpy_vit()).items()
        }
        student = {name: 0 * tensor for name, tensor in state.items()}
        content = {
            "student": student, "teacher": state, "epoch": 3, "optimizer": {"lr": 0.1},
            "args": argparse.Namespace(arch="vit_small"),
        }  # fmt: skip
        weights = read_weights(self.save(content, tmp_path / "x.pth"))
        name = "module.backbone.cls_token"
        np.testing.assert_array_equal(weights.tensors[name], state[name].numpy())

    @pytest.mark.parametrize("key", ["model_state_dict", "net"])
    def test_weights_beside_the_state_of_a_training(self, tmp_path, key):
        state = {"head.bias": self.torch.arange(3.0)}
        others = {"model": "vit", "best": self.torch.tensor(0.5), "epoch": 3}
        path = self.save({**others, key: state}, tmp_path / "x.pth")
        assert list(read_weights(path).tensors) == ["head.bias"]

    def test_files_of_old_are_refused(self, tmp_path):
        path = tmp_path / "x.pth"
        options = {"_use_new_zipfile_serialization": False}
        self.save({"a": self.torch.ones(2)}, path, **options)
        assert "written by PyTorch before 1.6" in refusal(path)

    def test_whole_models_are_refused(self, tmp_path):
        path = self.save(self.torch.nn.Linear(2, 2), tmp_path / "x.pth")
        assert "torch.nn.modules.linear.Linear" in refusal(path)
