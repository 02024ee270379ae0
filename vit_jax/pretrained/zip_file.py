"""Opens a zip of tensors after its declared sizes have been checked."""

import os
import pathlib
import zipfile

from vit_jax.errors import UserError


def open_zip(path: pathlib.Path, *, largest_ratio: int) -> zipfile.ZipFile:
    """The zip at `path`, none of whose members can unpack to more than expected.

    Args:
      path: of the file.
      largest_ratio: how many times the size of the file its members may have together;
        1: nothing is compressed, which also excludes members that overlap.

    Raises:
      UserError: the members declare more, or one of them is encrypted or compressed
        in another way than by deflation.
    """
    archive = zipfile.ZipFile(path)
    members = archive.infolist()
    allowed = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED][: 1 + (largest_ratio > 1)]
    declared = sum(member.file_size for member in members)
    size = os.path.getsize(path)
    message = None
    if declared > largest_ratio * size:
        message = f"declares {declared:,} bytes of content in a file of {size:,} bytes"
    elif any(member.compress_type not in allowed for member in members):
        message = "holds members that are compressed, which no such file should be"
    elif any(member.flag_bits & 1 for member in members):
        message = "is encrypted"
    elif len({member.filename for member in members}) < len(members):
        message = "holds two members of the same name"
    if message:
        archive.close()
        raise UserError(
            f"The weights file {path} {message}; nothing was read from it: fetch the "
            "file again from where its authors offer it."
        )
    return archive
