"""The start and the end of every command."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.parallel.running import require_mount, run_code
from vit_jax.errors import UserError
from vit_jax.runs.folder import RunFolder
from vit_jax.runs.load import load_run


@pytest.mark.parametrize(
    "name, flags",
    [
        ("evaluate", ("--workdir=RUN",)),
        ("predict", ("--workdir=RUN", "photo.jpg")),
        ("explain", ("--workdir=RUN",)),
        ("explore", ("--run=RUN", "--out=OUT")),
        ("compare", ("RUN", "--out=OUT")),
    ],
)
def test_a_command_says_what_it_loads_before_jax_is_there(name, flags):
    code = (
        "import sys\n"
        "class Screen:\n"
        "    def write(self, text):\n"
        "        print(text, 'jax' in sys.modules)\n"
        "        sys.stderr = sys.__stderr__\n"
        "        sys.exit()\n"
        f"from vit_jax.{name} import main\n"
        "sys.stderr = Screen()\n"
        f"main({flags})\n"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said == "loading RUN ... False\n"


def test_a_wrong_flag_is_one_sentence():
    for command in ("evaluate", "compare", "explore"):
        module = importlib.import_module(f"vit_jax.{command}")
        with pytest.raises(
            UserError, match=rf"required.* `python -m vit_jax.{command}"
        ):
            module.main([])


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
    process = run_code(code, capture_output=False, stderr=write)
    os.close(write)
    assert process.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "module, package, command",
    [
        ("sklearn", "scikit-learn", "main --config=vit_digits --workdir"),
        ("matplotlib", "matplotlib", "evaluate --workdir"),
        ("sklearn", "scikit-learn", "explore --config=vit_digits --out"),
        ("tensorboardX", "tensorboardX",
         "main --config=vit_digits --config.tensorboard=true --workdir"),
        ("tensorflow_datasets", "tensorflow-datasets",
         "main --config=vit_cifar --workdir"),
    ],
)  # fmt: skip
def test_a_missing_package_is_one_sentence(module, package, command, tmp_path):
    name, *arguments = command.split()
    code = f"import sys; sys.modules[{module!r}] = None; import vit_jax.{name} as c; "
    result = run_code(f"{code}c.run()", *arguments, str(tmp_path / "w"))
    assert result.returncode == 1
    *before, last = result.stderr.splitlines()
    assert last == (
        f"error: The package {package} is needed for this and not installed; install "
        "it with pip."
    )
    assert all(line.startswith("loading ") for line in before)
    assert not (tmp_path / "w").exists()


def test_a_path_that_cannot_be_opened_is_one_sentence():
    code = "from vit_jax.explore import run; run()"
    result = run_code(code, "--config=" + 300 * "x", "--out=o")
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and last.startswith("error: ")
    assert last.endswith("(File name too long); give another path, or mend that.")


@pytest.mark.parametrize("kind", ["cuda", "nonsense"])
def test_a_device_that_is_not_there_is_one_sentence(kind, tmp_path):
    if kind == "cuda" and importlib.util.find_spec("jax_cuda12_plugin"):
        pytest.skip("there may be a GPU")
    code = "from vit_jax.main import run; run()"
    result = run_code(code, "--config=vit_digits", f"--workdir={tmp_path}/w",
                      env=os.environ | {"JAX_PLATFORMS": kind})  # fmt: skip
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert last.startswith(
        f"error: JAX cannot use the devices of JAX_PLATFORMS={kind} ("
    )


def test_a_home_that_is_nobodys_and_a_step_of_5000_digits(tiny_run):
    with pytest.raises(UserError, match="no home folder"):
        RunFolder("~nosuchuser/run")
    with pytest.raises(UserError, match="has no checkpoint 999"):
        load_run(tiny_run[0], "9" * 5000)


# Fills a small disk, which holds a copy of a run, and calls a command.
FULL_DISK = """
mount -t tmpfs -o size=8m none "$1" && cp -r "$2" "$1/run" && mkdir "$1/out" || exit 99
cat /dev/zero > "$1/filler" 2>/dev/null
shift 2; exec "$@"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "vit_jax.evaluate --workdir={disk}/run --report",
        "vit_jax.predict --workdir={run} --figures={disk}/out {image}",
        "vit_jax.main --config=vit_digits --workdir={disk}/out",
    ],
)
def test_a_full_disk_is_one_sentence(command, tiny_run, tmp_path):
    run, disk, image = tiny_run[0], tmp_path / "disk", tmp_path / "image.png"
    disk.mkdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(image)
    require_mount(disk)
    name, *arguments = command.format(disk=disk, run=run, image=image).split()
    result = subprocess.run(
        ["unshare", "-rm", "sh", "-c", FULL_DISK, "sh", str(disk), str(run),
         sys.executable, "-m", name, *arguments],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 1, result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert "No space left on device" in last or "is full: a checkpoint" in last
    assert "Traceback" not in result.stderr
