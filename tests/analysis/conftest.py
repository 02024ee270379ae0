"""One trained run and its report, which the tests of several modules read."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def trained(tiny_config, tmp_path_factory):
    """(folder, results) of a finished run with a second test split.

    Tests may add reports of other splits to it.
    """
    from vit_jax.training.train import train_and_evaluate

    workdir = tmp_path_factory.mktemp("reported") / "tiny"
    config = tiny_config(data__subset_test_per_class=5)
    return workdir, train_and_evaluate(config, workdir)


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
