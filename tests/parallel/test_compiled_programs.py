"""Compiled programs are kept for the next start, and only where that is safe."""

import os

import pytest

from tests.parallel.running import run_code

_PROGRAM = """
import sys
sys.argv[1] == "before" and __import__("jax")
from vit_jax.parallel.commands import run_command
def main(_):
    import jax
    jax.jit(lambda x: jax.numpy.linalg.svd(jax.numpy.sin(x) @ x))(jax.numpy.eye(30))
    print("kept in", jax.config.jax_compilation_cache_dir)
run_command(main)
"""


def run_program(cache, jax_is_imported="later", **variables):
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(cache),
        # Programs that compile in milliseconds are kept as well.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        **variables,
    }
    if not variables:
        del environment["JAX_COMPILATION_CACHE_DIR"]
    return run_code(_PROGRAM, jax_is_imported, check=True, env=environment)


@pytest.mark.slow
def test_compiled_programs_are_kept_in_a_folder_of_the_user(tmp_path):
    for order in ("before", "later"):
        cache = tmp_path / order
        result = run_program(cache, order)
        compiled = cache / "vit_jax" / "compiled"
        assert f"kept in {compiled}" in result.stdout
        assert list(compiled.iterdir()), result.stderr
        for folder in (compiled, compiled.parent):
            assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    compiled = tmp_path / "vit_jax" / "compiled"
    compiled.mkdir(parents=True)
    compiled.chmod(0o777)
    result = run_program(tmp_path)
    assert "kept in None" in result.stdout and not list(compiled.iterdir())
    assert "warning: " in result.stderr and "can be written by others" in result.stderr


@pytest.mark.slow
def test_a_user_without_a_home_is_served_too():
    code = (
        "import os; os.environ.pop('HOME'); os.environ.pop('XDG_CACHE_HOME', 0)\n"
        "os.environ.pop('JAX_COMPILATION_CACHE_DIR', 0)\n"
        # Imports come first, because that user may not read the folder of Python.
        "from vit_jax.parallel.commands import run_command\n"
        "os.setuid(12345); run_command(lambda _: print('served'))"
    )
    if os.getuid() != 0:
        pytest.skip("only root can become a user that has no home")
    result = run_code(code)
    assert result.stdout == "served\n", result.stderr


@pytest.mark.slow
def test_what_jax_was_told_goes_first(tmp_path):
    result = run_program(tmp_path, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "other"))
    assert f"kept in {tmp_path / 'other'}" in result.stdout
    assert not (tmp_path / "vit_jax").exists()
