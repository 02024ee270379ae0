"""The start and the end of every command."""

import os
import subprocess
import sys


def test_a_closed_standard_error_keeps_the_exit_status(tmp_path):
    """A warning and an error are written to a pipe whose reader has ended."""
    code = (
        "import warnings\n"
        "from vit_jax.parallel.commands import run_command\n"
        "from vit_jax.errors import UserError\n"
        "def main(arguments):\n"
        "    warnings.warn('careful', stacklevel=1)\n"
        "    raise UserError('wrong')\n"
        "run_command(main)\n"
    )
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-c", code], stderr=write, stdout=subprocess.DEVNULL
    )
    os.close(write)
    assert process.returncode == 1
