"""Downloads from a local server that fails in the way that the path names."""

import hashlib
import http.server
import re
import socket

import pytest

from tests.data.servers import serving
from vit_jax.data import download
from vit_jax.errors import UserError

CONTENT = bytes(range(256)) * 8192  # 2 MiB
MD5 = hashlib.md5(CONTENT).hexdigest()
HTML = b"<html><body>Please log in</body></html>"


class Handler(http.server.BaseHTTPRequestHandler):
    """The path names the failure; the server records the requested ranges."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        fault = self.path.split("/")[1]
        self.server.ranges.append(self.headers["Range"])
        start = 0
        if fault != "no-ranges" and self.headers["Range"]:
            start = int(re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])[1])
        if start >= len(CONTENT):
            return self.send_error(416)
        if fault == "missing":
            return self.send_error(404)
        if fault == "html":
            return self.answer(200, HTML, len(HTML), "text/html; charset=utf-8")
        if fault == "silent":
            self.server.stopped.wait()
            return None
        body = CONTENT[start:]
        whole = len(body)
        if fault == "cut-off" and len(self.server.ranges) == 1:
            body = body[:1_000_000]
        return self.answer(206 if start else 200, body, whole)

    def answer(self, status, body, length, kind="application/x-gzip"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with serving(Handler) as server:
        server.ranges = []
        yield server


def names(folder):
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def test_fetch_and_fetch_again(server, tmp_path):
    folder = tmp_path / "new" / "cache"
    path = download.fetch(f"{server.url}/well/data.tar.gz", MD5, folder)
    assert path == folder / "data.tar.gz" and path.read_bytes() == CONTENT
    assert names(folder) == ["data.tar.gz"]
    download.fetch(f"{server.url}/well/data.tar.gz", MD5, folder)
    assert len(server.ranges) == 1, "what is there is not fetched again"


def test_resume_after_a_connection_that_broke(server, tmp_path):
    url = f"{server.url}/cut-off/data"
    with pytest.raises(
        UserError, match=r"cut off after 1000000 of 2097152 bytes.*tfds"
    ):
        download.fetch(url, MD5, tmp_path)
    assert names(tmp_path) == ["data.part"]
    assert download.fetch(url, MD5, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1000000-"]
    assert names(tmp_path) == ["data"]


@pytest.mark.parametrize(
    "name, there, fault, num_requests",
    [
        ("data", CONTENT[:-1], "well", 1),  # damaged
        ("data.part", CONTENT[:1000], "no-ranges", 1),
        ("data.part", CONTENT, "well", 0),
        ("data.part", CONTENT + b"x", "well", 2),
    ],
)
def test_what_is_there_already(server, tmp_path, name, there, fault, num_requests):
    (tmp_path / name).write_bytes(there)
    path = download.fetch(f"{server.url}/{fault}/data", MD5, tmp_path)
    assert path.read_bytes() == CONTENT and len(server.ranges) == num_requests
    assert names(tmp_path) == ["data"]


def test_a_part_of_another_file_is_deleted(server, tmp_path):
    (tmp_path / "data.part").write_bytes(b"x" * 1000)
    url = f"{server.url}/well/data"
    with pytest.raises(
        UserError, match=rf"2097152 bytes with MD5 .* {MD5} was expected"
    ):
        download.fetch(url, MD5, tmp_path)
    assert names(tmp_path) == []
    assert download.fetch(url, MD5, tmp_path).read_bytes() == CONTENT


def test_a_web_page_in_place_of_data(server, tmp_path):
    (tmp_path / "data.part").write_bytes(CONTENT[:1000])
    with pytest.raises(UserError, match=r"a text or HTML page, not the file"):
        download.fetch(f"{server.url}/html/data", MD5, tmp_path)
    # What had arrived before is still good.
    assert (tmp_path / "data.part").read_bytes() == CONTENT[:1000]


def test_no_such_file(server, tmp_path):
    with pytest.raises(UserError, match=r"Cannot fetch .*Not Found.*source=digits"):
        download.fetch(f"{server.url}/missing/data", MD5, tmp_path)


def test_a_host_that_keeps_silent(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.3)
    with pytest.raises(UserError, match=r"timed out.*config\.data\.archive"):
        download.fetch(f"{server.url}/silent/data", MD5, tmp_path)


def test_a_host_that_is_down(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # Bound but not listening: refuses connections.
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/data"
        with pytest.raises(UserError, match=r"Connection refused.*source=digits"):
            download.fetch(url, MD5, tmp_path)


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match=r"Cannot fetch .* into .*file/below"):
        download.fetch(f"{server.url}/well/data", MD5, tmp_path / "file" / "below")
