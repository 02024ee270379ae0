"""The order of the code: levels of imports, and a file of tests for each module.

JAX and TensorFlow are loaded only where they are needed.
"""

import ast
import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).parent
PACKAGE = TESTS.parent / "vit_jax"
METRICS = sorted((PACKAGE / "metrics").glob("[a-z]*.py"))
# Commands are at the top. A room may import from itself and from the lines below its
# own; rooms of one line do not import each other.
LEVELS = [
    {"main", "evaluate", "predict", "explain", "compare", "explore"},
    {"analysis"},
    {"training", "interpret"},
    {"runs", "pretrained"},
    {"config", "parallel", "models", "data", "augment", "metrics", "figures"},
    {"files"},
    {"errors"},
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
    """And a room that lists its modules, or some of them, lists all."""
    for file in sorted(PACKAGE.glob("*/**/__init__.py")):
        text = ast.get_docstring(ast.parse(file.read_text())) or ""
        assert "Imports" in text, file
        if ".py" in text:
            modules = {path.name for path in file.parent.glob("*.py")} - {file.name}
            assert not [name for name in modules if name not in text], file


def test_commands_are_short():
    for name in LEVELS[0]:
        lines = (PACKAGE / f"{name}.py").read_text().splitlines()
        assert len(lines) <= 80, name


def file_of_tests(module):
    """Path below tests/ of the tests of a module, whose path is below vit_jax/."""
    if module.name == "__init__.py":
        return module.parent / f"test_{module.parent.name}.py"
    return module.with_name(f"test_{module.name}")


def test_every_module_has_tests_of_its_name():
    """And so has every room whose `__init__` defines something."""
    modules = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    assert len(modules) > 150
    defines = (ast.FunctionDef, ast.ClassDef)
    missing = []
    for module in modules:
        if module.name == "__init__.py":
            tree = ast.parse((PACKAGE / module).read_text())
            if module.parent.name == "" or not any(
                isinstance(node, defines) for node in tree.body
            ):
                continue
        path = TESTS / file_of_tests(module)
        if not (path.exists() and "def test_" in path.read_text()):
            missing.append(str(file_of_tests(module)))
    assert not missing


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_names(tree):
    """Private names that a file of tests takes from elsewhere, by line.

    These are imports, attributes of anything but `self` and modules of other packages,
    and the texts with which monkeypatch and getattr name attributes.
    """
    others = {"self", "cls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = (alias.asname or alias.name for alias in node.names)
            others |= {name for name in names if not name.startswith("vit_jax")}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, x.name) for x in node.names if is_private(x.name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in others):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            if called in ("setattr", "delattr", "getattr", "hasattr"):
                for text in node.args:
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        name = text.value.split(".")[-1]
                        if is_private(name):
                            yield node.lineno, name


def test_no_test_uses_a_private_name():
    code = "import os\nfrom vit_jax import a\nfrom vit_jax.a import _b\n"
    code += "os._exit(self._x)\na._c\na()._d\nm.setattr(a, '_e', 1)\na.__init__\n"
    code += "m.setattr('vit_jax.a._f', 1)\n"
    assert sorted(name for _, name in private_names(ast.parse(code))) == [
        "_b",
        "_c",
        "_d",
        "_e",
        "_f",
    ]
    for path in TESTS.rglob("*.py"):
        assert list(private_names(ast.parse(path.read_text()))) == [], path


def test_the_linter_finds_nothing_such_as_an_undefined_name():
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", str(TESTS.parent)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def run_python(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "vit_jax",
        "vit_jax.config",
        "vit_jax.data",
        ", ".join(f"vit_jax.metrics.{path.stem}" for path in METRICS),
        "vit_jax.main",
        "vit_jax.figures.history",
    ],
)
def test_light_imports_stay_light(module):
    heavy = ("jax", "tensorflow", "orbax")
    code = f"import sys, {module}; print(*(n for n in {heavy} if n in sys.modules))"
    assert run_python(code) == []


@pytest.mark.slow
def test_a_training_imports_scores_of_classes_at_its_end():
    """scikit-learn brings pandas; with scipy.stats it doubles the time of imports."""
    code = "import sys, vit_jax.training.train\n"
    code += "print(*(n for n in ('sklearn', 'scipy.stats') if n in sys.modules))"
    assert run_python(code) == []
