"""The record of the software and hardware of a run."""

import calendar
import json
import sys
import time

import jax
import numpy as np

import vit_jax
from vit_jax.runs.environment import describe_environment


def test_versions_devices_command_and_time():
    before = time.time()
    found = describe_environment()
    assert json.loads(json.dumps(found)) == found
    assert (found["jax"], found["numpy"]) == (jax.__version__, np.__version__)
    assert found["vit_jax"] == vit_jax.__version__
    assert (found["num_devices"], found["num_processes"]) == (8, 1)
    assert found["command"] == sys.orig_argv and found["device"] == "cpu"
    started = time.strptime(found["started"], "%Y-%m-%dT%H:%M:%SZ")
    assert abs(calendar.timegm(started) - before) < 60
