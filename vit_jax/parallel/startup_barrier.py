"""The start-up barrier: every process waits here for all others, before JAX starts.

`jax.distributed.initialize` waits for all processes, too. But where one is absent it
aborts the others with a C++ stack trace that names nobody and that Python cannot catch
(JAX 0.10). This barrier says in one sentence which processes are absent.

Process 0 listens at the address that JAX's coordination service will use next. Every
other process connects, sends "vit_jax PROCESS_ID NUM_PROCESSES" and gets back "go" once
all are there, or "error: " and a sentence.
"""

import contextlib
import re
import socket
import time

from vit_jax.errors import UserError

_PAUSE_SECONDS = 0.2
# Process 0 waits this long for the greeting of a connection, which may be foreign.
_GREETING_SECONDS = 2
# The other processes wait this much longer than process 0, whose timeout comes first.
_GRACE_SECONDS = 10


def startup_barrier(
    address: str, num_processes: int, process_id: int, *, timeout_seconds: float
) -> dict[int, socket.socket]:
    """Waits until all processes have called this; the port is then free again.

    Args:
      address: HOST:PORT of process 0, as all processes can reach it.

    Returns:
      Open connections by process id: process 0 has one to each other process, and each
      other process has one to process 0.

    Raises:
      UserError: names the processes that did not start in time; or process 0 does not
        expect a process with this id.
    """
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + timeout_seconds
    if process_id == 0:
        return _wait_for_others(int(port), num_processes, deadline, timeout_seconds)
    connection = _connect(host.strip("[]"), int(port), deadline, timeout_seconds)
    with contextlib.ExitStack() as on_failure:
        on_failure.enter_context(connection)
        connection.settimeout(timeout_seconds + _GRACE_SECONDS)
        reply = b""
        with contextlib.suppress(OSError):
            connection.sendall(b"vit_jax %d %d\n" % (process_id, num_processes))
            # Unbuffered, because what follows this line is read elsewhere.
            with connection.makefile("rb", buffering=0) as stream:
                reply = stream.readline(1000)
        if reply.startswith(b"error: "):
            raise UserError(reply.decode().removeprefix("error: ").strip())
        if reply != b"go\n":
            raise UserError(
                f"Process 0 at {address} ended while it waited, or another program "
                "answers there; see its output, and check --coordinator_address."
            )
        connection.settimeout(None)
        on_failure.pop_all()
    return {0: connection}


def _wait_for_others(
    port: int, num_processes: int, deadline: float, timeout_seconds: float
) -> dict[int, socket.socket]:
    present: dict[int, socket.socket] = {}
    error = ""
    with _listen(port) as server:
        server.settimeout(_PAUSE_SECONDS)
        while missing := sorted(set(range(1, num_processes)) - present.keys()):
            if time.monotonic() > deadline:
                error = (
                    f"Of {num_processes} processes these did not start within "
                    f"{timeout_seconds:g} s: {', '.join(map(str, missing))}; see their "
                    "output, and start all with the same command except for "
                    "--process_id."
                )
                break
            with contextlib.suppress(TimeoutError):
                _admit(server.accept()[0], num_processes, present)
    for connection in present.values():
        # A process that has ended is noticed by the thread that watches them.
        with contextlib.suppress(OSError):
            connection.sendall(f"error: {error}\n".encode() if error else b"go\n")
        connection.settimeout(None)
        if error:
            connection.close()
    if error:
        raise UserError(error)
    return present


def _admit(
    connection: socket.socket, num_processes: int, present: dict[int, socket.socket]
) -> None:
    """Adds a connection to `present`, or closes it."""
    connection.settimeout(_GREETING_SECONDS)
    with contextlib.suppress(OSError):
        with connection.makefile("rb") as stream:
            greeting = re.fullmatch(rb"vit_jax (\d+) (\d+)\n", stream.readline(100))
        if greeting:
            new, count = map(int, greeting.groups())
            if count == num_processes and 0 < new < count and new not in present:
                present[new] = connection
                return
            connection.sendall(
                b"error: Process 0 waits for each of the processes 1 to %d once, but "
                b"process %d of %d came; check --process_id and --num_processes.\n"
                % (num_processes - 1, new, count)
            )
    connection.close()


def _listen(port: int) -> socket.socket:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"Process 0 cannot listen on port {port} of this host ({error}); give "
            "another in --coordinator_address."
        ) from None


def _connect(
    host: str, port: int, deadline: float, timeout_seconds: float
) -> socket.socket:
    while True:
        try:
            left = max(deadline - time.monotonic(), _PAUSE_SECONDS)
            return socket.create_connection((host, port), timeout=left)
        except UnicodeError as error:
            raise UserError(
                f"{host} in --coordinator_address is no host name ({error}); give the "
                "name or the number of the host of process 0."
            ) from None
        except (OSError, OverflowError) as error:
            # Process 0 may start last, and DNS may know its host even later.
            if time.monotonic() > deadline:
                raise UserError(
                    f"Process 0 did not start: nothing answered at {host}:{port} "
                    f"within {timeout_seconds:g} s ({error}); see its output, and "
                    "check --coordinator_address."
                ) from None
        time.sleep(_PAUSE_SECONDS)
