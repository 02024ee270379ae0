"""Imports only point down, and JAX and TensorFlow are loaded where they are needed."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "vit_jax"
LEAVES = {"models", "data", "augment", "metrics", "figures"}
# Each layer imports from those above it in this list; leaves only from the first.
LAYERS = [
    {"errors", "user_cache"},
    {"agreement", "disks", "host_memory", "lock", "ranking", "roll_call", "tables"},
    {"distributed"},
    {"durations", "rng", "mesh", "signals", "progress", "profile", *LEAVES},
    {"fields", "optim", "manifest"},
    {"settings", "orbax_manager"},
    {"config", "steps", "checkpoint", "journal", "commands", "feed", "environment"},
    {"folder"},
    {"runs", "logs", "page"},
    {"cost"},
    {"scoring", "interpret"},
    {"evaluation"},
    {"report"},
    {"evaluate", "experiment"},
    {"dispatch"},
    {"loop"},
    {"train", "comparison", "exploration", "explanation"},
    {"compare", "predict", "explain", "explore"},
    {"main"},
]


def imports_of(path):
    """First names below vit_jax of every module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "vit_jax":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("vit_jax."):
            yield node.module.split(".")[1]


def test_every_module_has_a_layer():
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    modules |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert modules == set().union(*LAYERS)


@pytest.mark.parametrize("height", range(len(LAYERS)))
def test_imports_point_down(height):
    below = set().union(*LAYERS[:height])
    for module in LAYERS[height]:
        files = [PACKAGE / f"{module}.py", *(PACKAGE / module).rglob("*.py")]
        for file in filter(pathlib.Path.exists, files):
            allowed = LAYERS[0] | {module} if module in LEAVES else below | {module}
            assert set(imports_of(file)) <= allowed, file


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
        "import vit_jax.train, vit_jax.evaluate, vit_jax.runs; print('fine')"
    )
    assert run_python(code) == ["fine"]


def test_load_run_is_found_at_the_top():
    import vit_jax
    from vit_jax.runs import load_run

    assert vit_jax.load_run is load_run
    with pytest.raises(AttributeError, match="laod_run"):
        _ = vit_jax.laod_run
