"""One trained run and its report, which the tests of several modules read."""

import shutil

import numpy as np
import pytest


@pytest.fixture(scope="session")
def trained(tiny_run, tmp_path_factory):
    """(folder, results) of a finished run, to which tests may add reports."""
    workdir = tmp_path_factory.mktemp("reported") / "tiny"
    return shutil.copytree(tiny_run[0], workdir), tiny_run[1]


@pytest.fixture(scope="session")
def reported(trained):
    """The run's folder with a report that has the counts of people."""
    from vit_jax.evaluate import main

    workdir = trained[0]
    counts = np.full((359, 10), 1, np.int64)
    file = workdir.parent / "people.npy"
    np.save(file, counts)
    main([f"--workdir={workdir}", "--report", f"--human_labels={file}"])
    return workdir
