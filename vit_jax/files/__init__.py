"""Small files: written whole or not at all, never through a link, read with limits.

whole.py         any file; folders and their links; what a full disk is
hashed_json.py   JSON objects that hold their own SHA-256

Imports `vit_jax.errors` only.
"""

from vit_jax.files.hashed_json import hashed, read_json, write_json
from vit_jax.files.whole import (
    is_full,
    make_folder,
    open_to_append,
    read_file,
    refuse_links,
    report_failure,
    user_path,
    write_file,
)

__all__ = [
    "hashed",
    "is_full",
    "make_folder",
    "open_to_append",
    "read_file",
    "read_json",
    "refuse_links",
    "report_failure",
    "user_path",
    "write_file",
    "write_json",
]
