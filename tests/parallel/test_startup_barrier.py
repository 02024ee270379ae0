"""The start-up barrier between threads, and strangers at its port."""

import contextlib
import socket
import threading
import time

import pytest

from tests.parallel.running import free_port
from vit_jax.errors import UserError
from vit_jax.parallel.startup_barrier import startup_barrier


def call(address, ids, *, num_processes=3, timeout_seconds=1.0):
    """What each of several threads, one for each id, gets at the start-up barrier."""
    messages, connections = [None] * len(ids), []

    def run(place):
        try:
            opened = startup_barrier(
                address, num_processes, ids[place], timeout_seconds=timeout_seconds
            )
            connections.extend(opened.values())
        except UserError as error:
            messages[place] = str(error)

    threads = [threading.Thread(target=run, args=[i]) for i in range(len(ids))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    for connection in connections:
        connection.close()
    return messages


@pytest.mark.slow
def test_the_startup_barrier_names_who_is_missing():
    address = f"127.0.0.1:{free_port()}"
    assert call(address, [2, 0, 1], timeout_seconds=20.0) == [None] * 3
    # The port is free again at once, as JAX needs it.
    for message in call(address, [0, 2]):
        assert "did not start within 1 s: 1;" in message
    (message,) = call(address, [1])
    assert f"nothing answered at {address}" in message
    primary, *both = call(address, [0, 1, 1])
    assert "within 1 s: 2;" in primary
    assert any("process 1 of 3 came" in message for message in both)


def test_a_host_with_an_impossible_name_is_refused_at_once():
    (message,) = call("node0..cluster:1234", [1], timeout_seconds=60.0)
    assert message.startswith("node0..cluster in --coordinator_address is no host name")


def test_strangers_do_not_disturb_the_startup_barrier():
    port = free_port()
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=1) as stranger,
            ):
                stranger.sendall(b"GET / HTTP/1.1\r\n" * 100)
            time.sleep(0.05)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        messages = call(f"127.0.0.1:{port}", [0, 1, 2], timeout_seconds=20.0)
    finally:
        stop.set()
        thread.join()
    assert messages == [None] * 3


def test_a_stranger_instead_of_process_0_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 mail ready\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        (message,) = call(address, [1])
        thread.join()
    assert "another program answers there" in message
