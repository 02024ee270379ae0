"""Who has started: asked before JAX starts, whose own start-up aborts without names.

Process 0 listens where JAX's coordination service will listen next. Every other process
connects and sends one line, and gets lines back:

    {"process_id": 1, "num_processes": 3}     to process 0
    {"missing": [2]}                          from it, as the others come; [] means go
    {"error": "..."}                          from it: the start-up failed
"""

import contextlib
import json
import socket
import time
from typing import Any

from vit_jax.errors import UserError

_PAUSE_SECONDS = 0.2
_GREETING_SECONDS = 2  # how long a stranger can hold process 0 up
_GRACE_SECONDS = 10  # process 0 ends the wait of those that have reached it


def roll_call(
    address: str, num_processes: int, process_id: int, *, timeout_seconds: float
) -> dict[int, socket.socket]:
    """Returns when all processes have called this; the port is free again then.

    Args:
      address: HOST:PORT of process 0, as all of them can reach it.

    Returns:
      Open connections that do not block, by process id: of process 0 to all others, of
      any other to process 0.

    Raises:
      UserError: some did not start in time, and which; or two have one id.
    """
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + timeout_seconds
    if process_id == 0:
        with _listen(int(port)) as server, contextlib.ExitStack() as connections:
            present = _wait_for_all(
                server, connections, num_processes, deadline, timeout_seconds
            )
            connections.pop_all()
            return present
    greeting = {"process_id": process_id, "num_processes": num_processes}
    connection = _connect(host.strip("[]"), int(port), deadline, timeout_seconds)
    with contextlib.ExitStack() as on_failure:
        on_failure.enter_context(connection)
        connection.settimeout(timeout_seconds + _GRACE_SECONDS)
        _send(connection, greeting)
        _wait_for_go(connection, address)
        connection.setblocking(False)
        _keep_alive(connection)
        on_failure.pop_all()
    return {0: connection}


def _wait_for_all(
    server: socket.socket,
    connections: contextlib.ExitStack,
    num_processes: int,
    deadline: float,
    timeout_seconds: float,
) -> dict[int, socket.socket]:
    present: dict[int, socket.socket] = {}

    def tell_all(reply: dict[str, Any]) -> None:
        for connection in present.values():
            _send(connection, reply)

    def fail(sentence: str) -> None:
        tell_all({"error": sentence})
        raise UserError(sentence)

    told = None
    while True:
        present = {i: c for i, c in present.items() if not _has_closed(c)}
        missing = [i for i in range(1, num_processes) if i not in present]
        if missing != told:
            tell_all({"missing": missing})
            told = missing
        if not missing:
            return present
        if time.monotonic() > deadline:
            names = ", ".join(map(str, missing))
            fail(
                f"Of {num_processes} processes these did not start within "
                f"{timeout_seconds:g} s: {names}; see their output, and start all with "
                "the same command except for --process_id."
            )
        server.settimeout(_PAUSE_SECONDS)
        with contextlib.suppress(TimeoutError):
            connection = connections.enter_context(server.accept()[0])
            if (greeting := _read_greeting(connection)) is None:
                connection.close()
                continue
            new, count = greeting
            taken = new in present
            present[-1 if taken else new] = connection
            if count != num_processes or not 0 < new < num_processes:
                fail(
                    f"Process 0 counts {num_processes} processes, but process {new} "
                    f"counts {count}; give all the same --num_processes."
                )
            if taken:
                fail(f"Two processes have the id {new}; give each its own.")
            told = None  # the new one has to hear it, too


def _wait_for_go(connection: socket.socket, address: str) -> None:
    with connection.makefile("rb") as stream:
        try:
            for line in stream:
                reply = json.loads(line)
                if "error" in reply:
                    raise UserError(reply["error"])
                if not reply["missing"]:
                    return
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise UserError(
                f"What answers at {address} is not process 0 of this command "
                f"({error}); check --coordinator_address."
            ) from None
    raise UserError(f"Process 0 at {address} ended while it waited; see its output.")


def _listen(port: int) -> socket.socket:
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True
            )
        return socket.create_server(("", port))
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
        except (OSError, OverflowError) as error:
            # Process 0 may start last, and its name be known later still.
            if time.monotonic() > deadline:
                raise UserError(
                    f"Process 0 did not start: nothing answered at {host}:{port} "
                    f"within {timeout_seconds:g} s ({error}); see its output, and "
                    "check --coordinator_address."
                ) from None
            time.sleep(_PAUSE_SECONDS)


def _read_greeting(connection: socket.socket) -> tuple[int, int] | None:
    """(process id, number of processes), or None from whoever else found the port."""
    connection.settimeout(_GREETING_SECONDS)
    try:
        with connection.makefile("rb") as stream:
            greeting = json.loads(stream.readline(200))
        connection.setblocking(False)
        _keep_alive(connection)
        return int(greeting["process_id"]), int(greeting["num_processes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep_alive(connection: socket.socket) -> None:
    """Lets no firewall forget a connection that carries nothing for hours."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not everywhere
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    # Whoever has closed is found missing in the next round.
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def _has_closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
