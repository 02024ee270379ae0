"""HTTP servers on this machine."""

import contextlib
import http.server
import threading


@contextlib.contextmanager
def serving(handler):
    """A server with its `url`; handlers that wait for `stopped` end with it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.stopped = threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
