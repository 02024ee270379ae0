"""Pickles as Python 2 wrote them, and malicious ones."""

import os
import struct


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def python2_pickle(value):
    """`value` as Python 2's protocol 2 wrote it, which Python 3 cannot do."""
    if isinstance(value, bytes):
        return b"T" + struct.pack("<i", len(value)) + value
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(python2_pickle, value)) + b"e"
    if isinstance(value, dict):
        pairs = [python2_pickle(part) for pair in value.items() for part in pair]
        return b"}(" + b"".join(pairs) + b"u"
    number, text = python2_pickle, python2_pickle
    shape = b"(" + b"".join(map(number, value.shape)) + b"t"
    dtype = b"cnumpy\ndtype\n(" + text(b"u1") + number(0) + number(1) + b"tR("
    dtype += number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0)
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(" + number(0)
    array += b"t" + text(b"b") + b"tR(" + number(1) + shape + dtype + b"tb\x89"
    return array + text(value.tobytes()) + b"tb"
