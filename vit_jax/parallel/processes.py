"""Decisions that several processes of one run take together.

All of them run the same program, and a computation on the mesh waits for all of them.
So process 0 decides for all whatever depends on a clock, a signal or the file system.
With a single process everything here is a no-op.

`multihost_utils` broadcasts arrays of a known shape. The functions here add what Python
code needs: values of any JSON type, a `UserError` that is raised on all processes
instead of leaving the others waiting, and the names of settings that differ.
"""

import collections
import json
import time
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


class Requests:
    """Grants requests at the same call in all processes.

    A process that is alone is granted its own at once. Several exchange theirs only
    where they are asked to, at the end of a logging interval for example, and learn the
    answer two calls later, when it is available without waiting.
    """

    def __init__(self, save_seconds: float):
        """`save_seconds` is the wall-clock time from one save to the next request."""
        self._save_seconds = save_seconds
        self._answers: collections.deque[Callable[[], int] | None] = collections.deque(
            2 * [None]
        )
        self.saved()

    def saved(self) -> None:
        """Starts the time to the next request to save."""
        self._last_save = time.monotonic()

    def granted(self, signal_number: int, *, exchange: bool) -> tuple[int, bool]:
        """The signal for which all processes stop now, or 0; whether all save soon.

        Args:
          signal_number: of the signal that this process got, or 0.
          exchange: whether several processes exchange their requests at this call,
            which is the same for all.
        """
        now = time.monotonic()
        # The clock of the primary process decides for all.
        is_due = is_primary() and now - self._last_save >= self._save_seconds
        request = 2 * signal_number + is_due
        if distributed.is_started():
            if is_due and exchange:
                # The answer comes later, and until then nothing is requested again.
                self._last_save = now
            self._answers.append(start_max(request) if exchange else None)
            wait_for_answer = self._answers.popleft()
            request = wait_for_answer() if wait_for_answer else 0
        number, saves = divmod(request, 2)
        return number, bool(saves)
