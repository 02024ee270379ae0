"""Weights are read whatever their format, and nothing bad in a file gets through."""

import argparse
import io
import json
import os
import pickle
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest

from tests.pretrained.weight_files import numpy_vit, safetensors_bytes, timm_tensors
from vit_jax.errors import UserError
from vit_jax.pretrained import read_weights

TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, "f4")}
GOOD = safetensors_bytes(TENSORS)


def test_a_header_of_any_size_is_told_from_other_formats(tmp_path):
    """The first byte of the size may be that of a web page or of a zip."""
    for byte in b"<P":
        text = GOOD[8:][: int.from_bytes(GOOD[:8], "little")]
        text += b" " * ((byte - len(text)) % 256)
        content = struct.pack("<Q", len(text)) + text + GOOD[-32:]
        (tmp_path / "file").write_bytes(content)
        assert content[0] == byte and read_weights(tmp_path / "file").tensors


def refusal(path):
    """The one sentence with which the file is refused."""
    with pytest.raises(UserError) as caught:
        read_weights(path)
    message = str(caught.value)
    assert message.endswith(".") and ". " not in message and str(path) in message
    return message


def header(**changes):
    return safetensors_bytes(TENSORS, **changes)


def entry(dtype="F32", shape=(2, 3), offsets=(0, 24)):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "begins with b''"),
        (b"some text", "neither .safetensors nor a zip"),
        (b"<!doctype html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "before 1.6"),
        (b"PK\x03\x04 and no more", "damaged"),
        (GOOD[:-5], "declares 32 bytes of tensors but holds 27"),
        (GOOD + b"more", "declares 32 bytes of tensors but holds 36"),
        (GOOD[:30], "declares a header of"),
        (struct.pack("<Q", 2**60) + GOOD[8:], "declares a header of"),
        (GOOD[:8] + b"{" + GOOD[8:], "damaged"),
        (header(a=entry(shape=(2, 2**40))), "declares a with shape"),
        (header(a=entry(shape=(-2, -3))), "declares a with shape"),
        (header(a=entry(offsets=(0, 2**50))), "declares a with shape"),
        (header(b=entry(shape=(2,), offsets=(16, 24))), "declares b with shape"),
        (header(a=entry(dtype="F8_E4M3")), "stores a as F8_E4M3"),
        (header(a=entry(shape=("x",))), "damaged"),
        (header(a=[]), "damaged"),
        (header(__metadata__={"vit_jax": '{"grid": "3 x 3"}'}), "damaged"),
    ],
)
def test_damaged_and_foreign_files_are_refused_in_a_sentence(content, words, tmp_path):
    (tmp_path / "file.bin").write_bytes(content)
    assert words in refusal(tmp_path / "file.bin")


def test_a_missing_file_and_a_foreign_folder_are_refused(tmp_path):
    assert "cannot be read" in refusal(tmp_path / "none")
    assert "lacks config.json" in refusal(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(GOOD)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert "'bert'" in refusal(tmp_path)


def test_safetensors_are_read_bfloat16_too(tmp_path):
    numbers = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    text = json.dumps({"a": entry("BF16", offsets=(0, 12))}).encode()
    content = struct.pack("<Q", len(text)) + text + numbers.tobytes()
    (tmp_path / "file").write_bytes(content)
    weights = read_weights(tmp_path / "file")
    assert weights.format == "safetensors" and len(weights.sha256) == 64
    np.testing.assert_array_equal(weights.tensors["a"], numbers)


def test_the_library_writes_what_we_read(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    library.save_file(TENSORS, tmp_path / "file")
    for name, array in read_weights(tmp_path / "file").tensors.items():
        np.testing.assert_array_equal(array, TENSORS[name])


def npz(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def test_npz_is_read_bfloat16_and_columns_first_too(tmp_path):
    arrays = {
        "plain": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "half": np.arange(3, dtype=ml_dtypes.bfloat16),
        "scalar": np.float32(2),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "file.npz", **arrays)
        weights = read_weights(tmp_path / "file.npz")
        assert weights.format == "npz"
        for name, array in arrays.items():
            np.testing.assert_array_equal(weights.tensors[name], array)


def test_bad_npz_is_refused(tmp_path):
    good = npy(np.arange(6.0))
    lying = good.replace(b"'shape': (6,), ", b"'shape': (9**9,),", 1)
    larger = good.replace(b"(6,), }        ", b"(600000000,), }", 1)
    objects = npy(np.array([print], dtype=object), allow_pickle=True)
    bomb = npy(np.zeros(10**6))
    for member, words in (
        (objects, "stores x as object"),
        (npy(np.array(["text"])), "expected numbers"),
        (lying, "damaged"),
        (larger, "declares x with shape (600000000,)"),
        (good[:-8], "declares x with shape (6,)"),
        (b"no array", "damaged"),
    ):
        path = npz(tmp_path / "x.npz", {"x.npy": member})
        assert words in refusal(path)
    path = npz(tmp_path / "x.npz", {"x.npy": bomb}, zipfile.ZIP_DEFLATED)
    assert "declares 8,000,128 bytes of content" in refusal(path)
    path = npz(tmp_path / "x.npz", {"x.npy": good})
    path.write_bytes(path.read_bytes()[:-30])
    assert "damaged" in refusal(path)
    content = bytearray(npz(path, {"x.npy": good}).read_bytes())
    content[content.index(good) + 130] ^= 1
    path.write_bytes(content)
    assert "CRC" in refusal(path)
    other = npz(tmp_path / "other.zip", {"readme.txt": b""})
    assert "neither .safetensors nor a zip of PyTorch" in refusal(other)


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
        # Places in the memo up to a number that would take 34 GB.
        (b"\x80\x02}r\xff\xff\xff\xff.", "LONG_BINPUT (4294967295)"),
        (pickle.dumps({"a": 1}, protocol=4), "opcode FRAME"),
        (pickle.dumps({"epoch": 1}, protocol=2), "holds ['epoch']"),
        (pickle.dumps([1], protocol=2), "holds list"),
        (b"\x80\x02}", "damaged"),
        # The attributes of a function that the pickle got are no way in.
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
        assert weights.metadata["key"] == "teacher"
        name = "module.backbone.cls_token"
        np.testing.assert_array_equal(weights.tensors[name], state[name].numpy())

    def test_files_of_old_are_refused(self, tmp_path):
        path = tmp_path / "x.pth"
        options = {"_use_new_zipfile_serialization": False}
        self.save({"a": self.torch.ones(2)}, path, **options)
        assert "written by PyTorch before 1.6" in refusal(path)

    def test_whole_models_are_refused(self, tmp_path):
        path = self.save(self.torch.nn.Linear(2, 2), tmp_path / "x.pth")
        assert "torch.nn.modules.linear.Linear" in refusal(path)
