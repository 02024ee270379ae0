"""Several processes of one run start together and end together.

`jax.distributed` connects the processes. This module adds what it lacks, measured with
JAX 0.10: JAX does not name a process that is absent at the start (see
`vit_jax.parallel.startup_barrier`). It notices a dead process only after its heartbeat
timeout and then aborts with a C++ stack trace. A process that fails alone waits five
minutes for the others, which wait for its part of a computation.
"""

import argparse
import contextlib
import multiprocessing.connection
import os
import re
import socket
import sys
import threading
from typing import Any

from vit_jax.errors import UserError
from vit_jax.parallel.compiled_programs import compiled_folder
from vit_jax.parallel.startup_barrier import startup_barrier

# JAX is imported inside the functions: the commands import this module before they
# know whether there is anything to compute.

# JAX gives up a host that does not answer, after a power failure for example.
_HEARTBEAT_SECONDS = 60
# Processes that fail together reach `leave` within this time.
_LEAVE_SECONDS = 5
_GOODBYE = b"goodbye"
# The connections to the other processes, for `_watch` and `leave`.
_connections: dict[int, socket.socket] = {}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `start_from_flags`; the command's docstring explains them."""
    group = parser.add_argument_group("several processes")
    group.add_argument("--coordinator_address", metavar="HOST:PORT", help="see above")
    group.add_argument("--num_processes", metavar="N", type=int, help="see above")
    group.add_argument("--process_id", metavar="I", type=int, help="see above, from 0")
    group.add_argument(
        "--distributed", action="store_true", help="ask the cluster for these three"
    )
    group.add_argument(
        "--startup_timeout_seconds",
        metavar="N",
        type=int,
        default=300,
        help="limit for the wait until all processes have started (%(default)s)",
    )


def start_from_flags(flags: Any) -> None:
    """Calls `start` if the command line says that there are several processes.

    Args:
      flags: of `add_flags`; one that is not given is None.

    Raises:
      UserError: the flags are incomplete or contradict each other, or see `start`.
    """
    names = ("coordinator_address", "num_processes", "process_id")
    given = {f"--{name}": getattr(flags, name) for name in names}
    missing = [name for name, value in given.items() if value is None]
    if flags.distributed and len(missing) < len(given):
        raise UserError(
            "--distributed asks the cluster for the address, number and id of the "
            "processes; give these, or --distributed, not both."
        )
    if not flags.distributed and 0 < len(missing) < len(given):
        raise UserError(
            f"{' and '.join(missing)} is missing; several processes need all of "
            f"{', '.join(given)}."
        )
    if flags.distributed or not missing:
        start(*given.values(), timeout_seconds=flags.startup_timeout_seconds)


def start(
    coordinator_address: str | None,
    num_processes: int | None,
    process_id: int | None,
    *,
    timeout_seconds: int,
) -> None:
    """Connects this process with the others, before anything else uses JAX.

    Args:
      coordinator_address: HOST:PORT of process 0, with a port that is free there. None:
        all three are what the cluster says. SLURM is asked here; Open MPI, Kubernetes
        and Cloud TPU are asked by JAX, which reports absent and dead processes there.

    Raises:
      UserError: names the processes that did not start within the time; or the hosts
        have different numbers of devices; or no cluster was found.
    """
    if coordinator_address is None and os.environ.get("SLURM_STEP_NODELIST"):
        coordinator_address, num_processes, process_id = _slurm_step()
    if coordinator_address is not None:
        if not (
            re.fullmatch(r".+:\d+", coordinator_address)
            and 0 <= process_id < num_processes
        ):
            raise UserError(
                f"--coordinator_address={coordinator_address} "
                f"--num_processes={num_processes} --process_id={process_id} must be "
                "HOST:PORT, N and I, where the ids I count from 0 to N - 1."
            )
        _connections.update(
            startup_barrier(
                coordinator_address,
                num_processes,
                process_id,
                timeout_seconds=timeout_seconds,
            )
        )
        threading.Thread(target=_watch, daemon=True).start()
    _initialize_jax(coordinator_address, num_processes, process_id, timeout_seconds)


def _slurm_step() -> tuple[str, int, int]:
    """(coordinator's address, number of processes, process id) as SLURM gives them.

    JAX reads the same variables, but tells nobody the address, and `startup_barrier`
    needs it.
    """
    # The first host of "node07", "node07,gpu1" or "node[07-11,15],gpu1" is node07.
    hosts = re.match(r"([^,\[]+)\[?([^,\-\]]*)", os.environ["SLURM_STEP_NODELIST"])
    try:
        # One of the 4,096 highest ports, another one for each job.
        port = 61440 + int(os.environ["SLURM_JOB_ID"]) % 4096
        port = os.environ.get("JAX_COORDINATOR_PORT", port)
        num_processes = int(os.environ["SLURM_NTASKS"])
        process_id = int(os.environ["SLURM_PROCID"])
    except (LookupError, ValueError) as error:
        raise UserError(
            f"--distributed found an incomplete SLURM job ({error}); start the command "
            "with srun."
        ) from None
    return f"{hosts[1]}{hosts[2]}:{port}", num_processes, process_id


def _initialize_jax(
    coordinator_address: str | None,
    num_processes: int | None,
    process_id: int | None,
    timeout_seconds: int,
) -> None:
    """`jax.distributed.initialize`, and the first computation that all take part in."""
    import jax

    from vit_jax.parallel import processes

    # Process 0 alone writes JAX's cache. Where home folders differ, it would find its
    # programs there and compile nothing, and the others would wait for its part of the
    # autotuning.
    with contextlib.suppress(UserError):  # there is no home folder
        if jax.config.jax_compilation_cache_dir == str(compiled_folder()):
            jax.config.update("jax_enable_compilation_cache", False)
    # JAX would take SIGTERM for itself; `vit_jax.parallel.signals` answers it.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator_address,
            num_processes,
            process_id,
            initialization_timeout=timeout_seconds,
            heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
        )
    except (RuntimeError, ValueError, LookupError, OSError, ImportError) as error:
        if coordinator_address is not None:
            raise
        raise UserError(
            "--distributed found no complete SLURM, Open MPI, Kubernetes or Cloud TPU "
            f"job ({error}); give --coordinator_address=HOST:PORT --num_processes=N "
            "--process_id=I."
        ) from None
    indices = [device.process_index for device in jax.devices()]
    counts = [indices.count(i) for i in range(jax.process_count())]
    if len(set(counts)) > 1:
        raise UserError(
            f"The processes have {counts} devices, but must have equally many; hide "
            "some with CUDA_VISIBLE_DEVICES."
        )
    if not processes.is_primary():
        os.dup2(2, 1)  # Gloo, which connects CPUs, would print on standard output
    processes.broadcast_from_primary(processes.start_max(0))


def _watch() -> None:
    """Ends this process, with a sentence, as soon as another one has died.

    The kernel closes a dead process's connections at once.
    """
    watched = {connection: i for i, connection in _connections.items()}
    while watched:
        for connection in multiprocessing.connection.wait(list(watched)):
            try:
                message = connection.recv(100)
            except OSError:
                message = b""
            if message.startswith(_GOODBYE):
                del watched[connection]
                continue
            lost = int(message or watched[connection])
            if 0 not in _connections:  # this is process 0, which alone knows all others
                _tell_others(b"%d" % lost)
            with contextlib.suppress(OSError, ValueError):
                print(
                    f"error: process {lost} ended, and no other can go on without it; "
                    "see its output, and rerun the same commands to resume.",
                    file=sys.stderr,
                    flush=True,
                )
            os._exit(1)


def _tell_others(message: bytes) -> None:
    for connection in _connections.values():
        with contextlib.suppress(OSError):
            connection.send(message)


def is_started() -> bool:
    """Whether JAX connects this process with others; imports nothing."""
    # None stands there where the import has failed.
    loaded = sys.modules.get("jax")
    return loaded is not None and loaded.distributed.is_initialized()


def leave(status: int) -> None:
    """Tells the other processes that this one ends; a process that fails ends at once.

    Otherwise JAX would hold it for five minutes at a barrier that the others never
    reach, because they wait for its part of a computation.
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
        # The time is over or another process is dead, which JAX and Orbax report by
        # several exceptions. Any exception that left this function would keep this
        # process in JAX's barrier.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
