"""PNG files made by hand."""

import struct
import zlib


def png_header(width, height):
    """A PNG whose header states a size and which has almost no data."""

    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = (
        chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )
    return b"\x89PNG\r\n\x1a\n" + body
