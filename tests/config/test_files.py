"""Config files, found by path or name."""

import ast
import pathlib
import py_compile

import pytest

from vit_jax.config import load_config_file
from vit_jax.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.py")), ids=str)
def test_config_files_import_only_ml_collections_and_settings(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [node.module]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
            assert names in (["ml_collections"], ["vit_jax.config"])


def test_configs_by_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_name = load_config_file("vit_192x9:resnet18")
    by_path = load_config_file(f"{ROOT}/configs/vit_192x9.py:resnet18")
    assert by_name.to_dict() == by_path.to_dict()
    names = ", ".join(sorted(path.stem for path in (ROOT / "configs").glob("*.py")))
    for name in ("vit_digit", "/far/away/configs/vit_digits.py"):
        with pytest.raises(UserError) as refusal:
            load_config_file(name)
        assert 'did you mean "vit_digits"' in str(refusal.value)
        assert names in str(refusal.value)


def test_config_files_that_cannot_be_used(tmp_path):
    for path in ("configs/vit_cifra.py", "README.md"):
        with pytest.raises(UserError, match="no config file"):
            load_config_file(path)
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with pytest.raises(UserError, match="get_config"):
        load_config_file(str(empty))
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def get_config():\n    return {'model': {'detph': 3}}\n")
    with pytest.raises(UserError, match=r"model\.depth"):
        load_config_file(str(wrong))
    with pytest.raises(UserError, match="no variants"):
        load_config_file(f"{wrong}:fast")
    with pytest.raises(UserError, match=f"--config.data.dir={tmp_path}"):
        load_config_file(str(tmp_path))


CONFIG = """\
from vit_jax.config import default_config
RATES = {"slow": 1e-4}
def get_config(variant="fast"):
    config = default_config()
    config.optim.learning_rate = {"fast": 1e-3, "slow": RATES["slow"]}[variant]
    BODY
    return config
"""


@pytest.mark.parametrize(
    "body, variant, words",
    [
        ("pass", "fats", "has no variant 'fats'"),
        ("RATES['other']", "", r"fails in line 6 \(KeyError: 'other'\)"),
        ("RATES['other']", "slow", r"fails in line 6 \(KeyError: 'other'\)"),
        ("config.optm.name = 'adam'", "", "fails in line 6 .*optm"),
        ("config.optim.nmae = 'adam'", "", 'did you mean "optim.name"'),
        ("config.optim.name = 3", "", "config.optim.name is 3, but must be one of"),
        ("1 +", "", r"fails in line 6 \(SyntaxError"),
        ("return None", "", "returns None, but must return a config"),
        ("return [config]", "", "returns .*, but must return a config"),
        (
            "own = {}; own['optim'] = own; return own",
            "",
            "no setting config.optim.optim",
        ),
        ("exit(3)", "", r"fails in line 6 \(SystemExit: 3"),
        ("import nothing_like_it", "", "fails in line 6 .*nothing_like_it"),
    ],
)
def test_mistakes_in_a_config_file_name_the_line(tmp_path, body, variant, words):
    file = tmp_path / "mine.py"
    file.write_text(CONFIG.replace("BODY", body))
    with pytest.raises(UserError, match=words) as refusal:
        load_config_file(f"{file}:{variant}" if variant else str(file))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["get_config = 5", "pass", "\0", "\xff"])
def test_a_file_that_has_no_config_is_one_sentence(text, tmp_path):
    (tmp_path / "mine.py").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"mine\.py (has no function|fails in line)"):
        load_config_file(str(tmp_path / "mine.py"))


def test_a_file_may_have_dataclasses_whose_annotations_are_text(tmp_path):
    file = tmp_path / "random.py"  # has the name of another module
    file.write_text(
        "from __future__ import annotations\n"
        "import dataclasses\n"
        "@dataclasses.dataclass\n"
        "class Size:\n"
        "    width: int = 24\n"
        "def get_config():\n"
        "    return {'model': {'name': 'vit', 'width': Size().width}}\n"
    )
    assert load_config_file(str(file)).model.width == 24
    import random

    assert hasattr(random, "gauss")


def test_a_file_is_run_as_it_is_now_and_not_as_python_once_compiled_it(tmp_path):
    """Neither of the same second and size, nor as it came with a stranger's folder."""
    file = tmp_path / "mine.py"
    text = "{}\n\ndef get_config():\n    return {{'batch_size': {}}}\n"
    for size in (64, 32):
        file.write_text(text.format("", size))
        py_compile.compile(
            str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        assert load_config_file(file).batch_size == size
        file.write_text(text.format("", size // 2))
        assert load_config_file(file).batch_size == size // 2


def test_a_config_file_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text("def get_config():\n    return {'seed': 7}\n")
    assert load_config_file("~/mine.py").seed == 7
