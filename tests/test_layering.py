"""Imports only point down, and JAX and TensorFlow are loaded where they are needed."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "vit_jax"
# From the door down. What stands in a line imports from the lines below it, and a room
# from itself; rooms of one line do not import each other.
LEVELS = [
    {"main", "evaluate", "predict", "explain", "compare", "explore"},
    {"analysis"},
    {"training", "interpret"},
    {"runs"},
    {"config", "parallel", "pretrained"},
    {"models", "data", "augment", "metrics", "figures"},
    {"errors", "user_cache"},
]


def imports_of(path):
    """First names below vit_jax of every module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "vit_jax":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("vit_jax."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            yield from (name[1] for name in names if name[0] == "vit_jax" and name[1:])


def test_every_command_and_room_has_a_level():
    found = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    found |= {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert found == set().union(*LEVELS)
    assert len(LEVELS) <= 7


@pytest.mark.parametrize("name", sorted(set().union(*LEVELS)))
def test_imports_point_down(name):
    (level,) = (i for i, names in enumerate(LEVELS) if name in names)
    allowed = {name}.union(*LEVELS[level + 1 :])
    for file in (PACKAGE / f"{name}.py", *(PACKAGE / name).rglob("*.py")):
        if file.exists():
            assert set(imports_of(file)) <= allowed, file


def test_every_room_says_what_it_holds():
    for file in PACKAGE.glob("*/__init__.py"):
        assert "Imports" in (ast.get_docstring(ast.parse(file.read_text())) or ""), file


def run_python(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.parametrize(
    "module",
    [
        "vit_jax",
        "vit_jax.config",
        "vit_jax.data",
        "vit_jax.metrics.roc",
        "vit_jax.main",
        "vit_jax.figures.history",
    ],
)
def test_light_imports_stay_light(module):
    heavy = ("jax", "tensorflow", "orbax")
    code = f"import sys, {module}; print(*(n for n in {heavy} if n in sys.modules))"
    assert run_python(code) == []


def test_everything_imports_without_tensorflow():
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "import vit_jax.training.train, vit_jax.evaluate, vit_jax.runs.load\n"
        "print('fine')"
    )
    assert run_python(code) == ["fine"]
