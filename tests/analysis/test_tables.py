"""Tables as Markdown and CSV."""

import csv

from vit_jax.analysis.tables import markdown_table, plain, write_csv


def test_columns_are_aligned_and_bars_are_escaped():
    assert markdown_table(["run", "F1"], [["a|b", "0.5"], ["c", "0.25"]]) == (
        "| run  | F1   |\n|------|------|\n| a\\|b | 0.5  |\n| c    | 0.25 |"
    )


def test_a_csv_file_has_every_key_once_and_empty_cells(tmp_path):
    path = tmp_path / "t.csv"
    write_csv(path, [{"run": "a, b", "loss": 0.1 + 0.2}, {"run": "c", "auc": None}])
    text = path.read_text()
    assert "\r" not in text
    first, second = csv.DictReader(text.splitlines())
    assert first == {"run": "a, b", "loss": "0.30000000000000004", "auc": ""}
    assert second == {"run": "c", "loss": "", "auc": ""}


def test_large_numbers_have_no_exponent():
    numbers = {1234.5: "1,234", 999.7: "1,000", 12.34: "12.3", 0.000012: "1.2e-05"}
    assert {number: plain(number, ".3g") for number in numbers} == numbers
    assert plain(99.7, ".2g") == "100" and plain(1234.5, ".2f") == "1234.50"
