"""Decisions that several processes of one run take together.

All of them run the same program, and a computation on the mesh waits for all of them.
So process 0 decides for all whatever depends on a clock, a signal or the file system.
With a single process everything here is a no-op.

`multihost_utils` broadcasts arrays of a known shape. The functions here add what Python
code needs: values of any JSON type, a `UserError` that is raised on all processes
instead of leaving the others waiting, and the names of settings that differ.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vit_jax.errors import UserError
from vit_jax.parallel import distributed

T = TypeVar("T")


def is_primary() -> bool:
    """Whether this process is process 0, which alone writes files and prints.

    A process that is alone need not start JAX's devices to know it: one that only
    launches trainings leaves them, and their memory, to those.
    """
    return not distributed.is_started() or jax.process_index() == 0


def broadcast_from_primary(function: Callable[[], T]) -> T:
    """Calls `function` on process 0 only and returns its result on all processes.

    Args:
      function: returns a value that JSON can represent.

    Raises:
      UserError: on all processes, if `function` raised it.
    """
    if jax.process_count() == 1:
        return function()
    reply = {}
    if is_primary():
        try:
            reply = {"value": function()}
        except UserError as error:
            reply = {"error": str(error)}
    text = np.frombuffer(json.dumps(reply).encode(), np.uint8)
    with jax.transfer_guard("allow"):
        size = int(multihost_utils.broadcast_one_to_all(np.int32(text.size)))
        text = multihost_utils.broadcast_one_to_all(np.resize(text, size))
    reply = json.loads(text.tobytes())
    if "error" in reply:
        raise UserError(reply["error"])
    return reply["value"]


def run_on_all(function: Callable[[], T]) -> T:
    """Calls `function` on process 0 first and then on the others.

    So process 0 alone prepares what the others then find, a download for example.
    `function` must not compute on the devices of other processes.

    Raises:
      UserError: on all processes, if `function` raised it on one.
    """
    if jax.process_count() == 1:
        return function()
    result = error = None
    for mine in (is_primary(), not is_primary()):
        if mine:
            try:
                result = function()
            except UserError as raised:
                error = raised
        with jax.transfer_guard("allow"):
            failed = multihost_utils.process_allgather(np.bool_(error is not None))
        if error is not None:
            raise error
        if failed.any():
            ids = ", ".join(map(str, np.flatnonzero(failed)))
            raise UserError(f"Process {ids} could not start; see its own message.")
    return result


def require_same(settings: dict[str, Any]) -> None:
    """Refuses processes whose settings differ from those of process 0.

    Raises:
      UserError: on all processes; names each setting that differs.
    """
    settings = json.loads(json.dumps(settings))
    expected = broadcast_from_primary(lambda: settings)

    def compare() -> None:
        changes = [
            f"{key}: {expected.get(key)!r} there, {settings.get(key)!r} here"
            for key in sorted(expected.keys() | settings.keys())
            if expected.get(key) != settings.get(key)
        ]
        if changes:
            raise UserError(
                f"Process {jax.process_index()} differs from process 0 "
                f"({'; '.join(changes)}); start all with the same command."
            )

    run_on_all(compare)


_compiled_max = jax.jit(jnp.max)


def start_max(value: int) -> Callable[[], int]:
    """Starts to compute the largest of the processes' values.

    Returns at once a function that waits for the result, whereas the functions of
    `multihost_utils` always wait. All processes must call this at the same place in
    their sequence of computations.
    """
    mesh = Mesh(jax.devices(), ("all",))
    with jax.transfer_guard("allow"):
        values = jax.make_array_from_callback(
            (mesh.size,),
            NamedSharding(mesh, PartitionSpec("all")),
            lambda _: np.full(1, value, np.int32),
        )
        largest = _compiled_max(values)
    return lambda: int(jax.device_get(largest))
