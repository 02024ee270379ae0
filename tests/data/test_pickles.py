"""Pickles of CIFAR's layout, and those that are refused."""

import os
import pickle

import numpy as np
import pytest

from tests.data.cifar_pickles import Evil, python2_pickle
from vit_jax.data.pickles import load_pickle
from vit_jax.errors import UserError


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_not_run(tmp_path, protocol):
    path = str(tmp_path / "executed")
    content = pickle.dumps({"data": Evil(path)}, protocol)
    with pytest.raises(UserError, match=r'asks for "(posix|nt).mkdir", which no offic'):
        load_pickle(content)
    assert not os.path.exists(path)
    # Plain pickle runs this content.
    pickle.loads(content)
    assert os.path.exists(path)


def test_damaged_pickle():
    whole = b"\x80\x02" + python2_pickle({b"data": np.zeros((2, 3), np.uint8)}) + b"."
    np.testing.assert_array_equal(load_pickle(whole)[b"data"], np.zeros((2, 3)))
    for length in range(len(whole)):
        with pytest.raises(UserError):
            load_pickle(whole[:length])


def test_pickle_of_objects_is_refused():
    objects = python2_pickle(np.zeros(2, np.uint8)).replace(b"u1", b"O8")
    with pytest.raises(UserError, match=r"expected bytes"):
        load_pickle(b"\x80\x02" + objects + b".")
