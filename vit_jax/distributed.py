"""Several processes of one run start together and end together."""

import contextlib
import os
import re
import selectors
import socket
import sys
import threading
from collections.abc import Iterator

from vit_jax.errors import UserError
from vit_jax.roll_call import roll_call
from vit_jax.user_cache import compiled_folder

# JAX is imported inside the functions: the commands import this module before they
# know whether there is anything to compute.

_HEARTBEAT_SECONDS = 60  # after which JAX gives up a host that vanished with its kernel
_LEAVE_SECONDS = 5  # enough for processes that fail together
_GOODBYE = b"goodbye"
_connections: dict[int, socket.socket] = {}  # to the others, for `_watch` and `leave`


def start(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    timeout_seconds: int = 300,
) -> None:
    """Connects this process with the others, before anything else uses JAX.

    Args:
      coordinator_address: HOST:PORT of process 0, with a port that is free there. None:
        all three are what SLURM, Open MPI, Kubernetes or Cloud TPU say.

    Raises:
      UserError: processes that did not start within the time, by their ids; or hosts
        with different numbers of devices.
    """
    local_device_ids = None
    if coordinator_address is None:
        coordinator_address, num_processes, process_id, local_device_ids = _detect(
            timeout_seconds
        )
    if not re.fullmatch(r".+:\d+", coordinator_address):
        raise UserError(
            f"--coordinator_address is {coordinator_address}, but must be HOST:PORT."
        )
    if not 0 <= process_id < num_processes:
        raise UserError(
            f"--process_id is {process_id} and --num_processes {num_processes}; ids "
            "count from 0 to one below the number of processes."
        )
    _connections.update(
        roll_call(
            coordinator_address,
            num_processes,
            process_id,
            timeout_seconds=timeout_seconds,
        )
    )
    threading.Thread(target=_watch, daemon=True).start()
    _initialize_jax(
        coordinator_address,
        num_processes,
        process_id,
        local_device_ids,
        timeout_seconds,
    )


def _initialize_jax(
    coordinator_address: str,
    num_processes: int,
    process_id: int,
    local_device_ids: list[int] | None,
    timeout_seconds: int,
) -> None:
    """`jax.distributed.initialize`, and the first computation that all take part in."""
    import jax

    from vit_jax import agreement

    # Process 0 alone writes JAX's cache. Where homes differ it would compile nothing,
    # and the others would wait for its share of the autotuning.
    if jax.config.jax_compilation_cache_dir == str(compiled_folder()):
        jax.config.update("jax_enable_compilation_cache", False)
    # JAX would take SIGTERM for itself; `vit_jax.signals` answers it.
    jax.config.update("jax_enable_preemption_service", False)
    jax.distributed.initialize(
        coordinator_address,
        num_processes,
        process_id,
        local_device_ids,
        initialization_timeout=timeout_seconds,
        heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
    )
    indices = [device.process_index for device in jax.devices()]
    counts = [indices.count(i) for i in range(num_processes)]
    if len(set(counts)) > 1:
        raise UserError(
            f"The processes have {counts} devices, but must have equally many; hide "
            "some with CUDA_VISIBLE_DEVICES."
        )
    with _gloo_on_standard_error():
        agreement.first_decides(agreement.start_max(0))


@contextlib.contextmanager
def _gloo_on_standard_error() -> Iterator[None]:
    """Gloo, which connects CPUs, tells of its first exchanges on standard output."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def _watch() -> None:
    """Ends this process, with a sentence, as soon as another one is gone.

    The kernel closes a dead process's connections. JAX would notice a minute later and
    then abort, with a C++ stack trace and without a name.
    """
    with selectors.DefaultSelector() as selector:
        for process_id, connection in _connections.items():
            selector.register(connection, selectors.EVENT_READ, process_id)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    message = key.fileobj.recv(100)
                except BlockingIOError:
                    continue
                except OSError:
                    message = b""
                if message.startswith(_GOODBYE):
                    selector.unregister(key.fileobj)
                    continue
                lost = int(message or key.data)
                if key.data != 0:  # this is process 0, which alone knows all others
                    _tell_others(b"%d" % lost)
                with contextlib.suppress(OSError, ValueError):
                    print(
                        f"error: process {lost} ended, and no other can go on without "
                        "it; see its output, and rerun the same commands to resume.",
                        file=sys.stderr,
                        flush=True,
                    )
                os._exit(1)


def _tell_others(message: bytes) -> None:
    for connection in _connections.values():
        with contextlib.suppress(OSError):
            connection.send(message)


def _detect(timeout_seconds: int) -> tuple[str, int, int, list[int] | None]:
    """What `jax.distributed.initialize` would find out by itself."""
    try:
        # Not public; but JAX alone knows these clusters, and tells only as it connects.
        from jax._src.clusters import ClusterEnv

        found = ClusterEnv.auto_detect_unset_distributed_params(
            os.environ.get("JAX_COORDINATOR_ADDRESS"), *[None] * 4, timeout_seconds
        )
    except (
        # The last two: another version of JAX.
        RuntimeError, ValueError, LookupError, OSError, ImportError, TypeError,
    ) as error:  # fmt: skip
        found, reason = [None], f": {error}"
    else:
        reason = " around this process"
    if None in found[:3]:
        raise UserError(
            "--distributed found no complete SLURM, Open MPI, Kubernetes or Cloud TPU "
            f"job{reason}; give --coordinator_address=HOST:PORT --num_processes=N "
            "--process_id=I."
        )
    return found


def is_started() -> bool:
    """Whether JAX connects this process with others; imports nothing."""
    return "jax" in sys.modules and sys.modules["jax"].distributed.is_initialized()


def leave(status: int) -> None:
    """Lets the others know that this process ends; at once, if it alone failed.

    JAX would make it wait for them, while they wait for its share of a computation.
    """
    if not is_started():
        return
    try:
        if status != 0:
            from orbax.checkpoint import multihost

            multihost.get_barrier_sync_fn()(
                key="vit_jax_leave", timeout_ms=1000 * _LEAVE_SECONDS
            )
        _tell_others(_GOODBYE)
    except Exception:
        # Too late, or somebody is gone, which JAX and Orbax tell in several ways. What
        # it was no longer matters, and raised here it would leave JAX to wait.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
