"""Downloads with a time-out, which are resumed and checked by their hash.

The library pooch checks a hash, too, but restarts an interrupted download from its
first byte.
"""

import contextlib
import functools
import hashlib
import http.client
import pathlib
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator

from tqdm import tqdm

from vit_jax.errors import UserError

TIMEOUT_SECONDS = 30.0  # Limit for the connection and for each read.

OFFLINE = (
    "without the internet, point config.data.dir (cifar_files) or config.data.archive "
    "(tfds) at an archive or folder on this machine, or use config.data.source=digits"
)


def file_md5(path: pathlib.Path) -> str:
    """The MD5 of a file in hexadecimal."""
    with path.open("rb") as file:
        # Some hardened builds of Python refuse MD5 where it might be for security.
        md5 = functools.partial(hashlib.md5, usedforsecurity=False)
        return hashlib.file_digest(file, md5).hexdigest()


def fetch(url: str, md5: str, folder: pathlib.Path) -> pathlib.Path:
    """Downloads the file at `url` into `folder`, unless it is there, and returns it.

    An unfinished download stays in a ".part" file, which the next call continues. The
    file is renamed once its MD5 is right.

    Raises:
      UserError: the host is down or slow, the connection is lost, the file is another
        one, or it cannot be written; the message names the ways without internet.
    """
    target = folder / url.rpartition("/")[2]
    if target.is_file() and file_md5(target) == md5:
        return target
    part = target.with_name(target.name + ".part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (part.is_file() and file_md5(part) == md5):
            _download(url, part)
        found = file_md5(part)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UserError(
            f"Cannot fetch {url} into {folder} ({reason}); try again later, or, "
            f"{OFFLINE}."
        ) from error
    if found != md5:
        size = part.stat().st_size
        part.unlink()
        raise UserError(
            f"{url} gave {size} bytes with MD5 {found}, but {md5} was expected; they "
            f"were deleted: run again, or, {OFFLINE}."
        )
    part.replace(target)
    return target


def _download(url: str, part: pathlib.Path) -> None:
    """Appends the missing rest of the file to `part`."""
    have = part.stat().st_size if part.is_file() else 0
    headers = {"User-Agent": "vit_jax"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        part.unlink()  # 416, no such range: `part` is not a beginning of this file.
        return _download(url, part)
    with response:
        if response.headers.get_content_maintype() == "text":
            raise OSError("the answer is a text or HTML page, not the file")
        if response.status != 206:
            have = 0  # The server ignores the range and sends the whole file.
        length = response.headers["Content-Length"]
        total = have + int(length) if length else None
        with (
            part.open("ab" if have else "wb") as file,
            # There is no bar where there is no terminal.
            tqdm.wrapattr(
                file, "write", total, desc=part.stem, initial=have, disable=None
            ) as bar,
        ):
            shutil.copyfileobj(response, bar)
    size = part.stat().st_size
    if total is not None and size < total:
        raise OSError(
            f"cut off after {size} of {total} bytes; the next run continues there"
        )


@contextlib.contextmanager
def requests_time_out() -> Iterator[None]:
    """Sets a time-out for downloads by `requests` that have none, such as TFDS's.

    A host that is not reached is asked once more: TFDS would ask for minutes.
    """
    import requests

    adapter = requests.adapters.HTTPAdapter
    send = adapter.send

    def send_with_time_out(self, request, **options):
        options["timeout"] = options.get("timeout") or TIMEOUT_SECONDS
        self.max_retries = self.max_retries.new(connect=1, read=1)
        return send(self, request, **options)

    adapter.send = send_with_time_out
    try:
        yield
    finally:
        adapter.send = send
