"""metrics.jsonl: damaged lines are left out, and said."""

import warnings

import pytest

from vit_jax.runs.records import append_record, read_records, write_records

RECORD = {"step": 1, "epoch": 0.5, "seconds": 2.0, "split": "train", "loss": None,
          "accuracy": 0.5}  # fmt: skip


WORDS = b'{"step": 1, "epoch": 0, "seconds": 1, "split": "train", "grad_norm": "x"}'


@pytest.mark.parametrize(
    "line",
    [b"\xff", b"5", b"{}", b"[[]]", b"[" * 99_999, b'{"step": "1"}', WORDS, b""],
)
def test_a_damaged_line_costs_one_record_and_a_warning(line, tmp_path):
    file = tmp_path / "metrics.jsonl"
    write_records(file, [RECORD])
    file.write_bytes(file.read_bytes() + line + b"\n")
    append_record(file, RECORD | {"step": 2})
    with pytest.warns(UserWarning, match=r"damaged lines.* is 1, .*line 2; they"):
        records = read_records(file)
    assert [record["step"] for record in records] == [1, 2]
    assert records[0] == RECORD


def test_a_flipped_digit_costs_the_line(tmp_path):
    file = tmp_path / "metrics.jsonl"
    append_record(file, RECORD)
    file.write_bytes(file.read_bytes().replace(b"0.5", b"0.7", 1))
    with pytest.warns(UserWarning, match="damaged lines .* is 1"):
        assert read_records(file) == []


def test_an_incomplete_last_line_is_no_damage(tmp_path):
    file = tmp_path / "metrics.jsonl"
    append_record(file, RECORD)
    file.write_bytes(file.read_bytes() + b'{"step": 2, "ep')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_records(file) == [RECORD]
