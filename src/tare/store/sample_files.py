"""Read files of samples quickly where they are as tare writes them; any other goes through `tare.host.foreign`."""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tare.host.foreign import read_arrays

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_QUICK_BYTES: Final = 16 << 20
_MEMBER: Final = struct.Struct("<4sHHHHHIIIHH")
"""A member's header in a zip archive: signature, version, flags, compression, time, date, CRC, sizes, lengths."""
_ARRAY: Final = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(<[fiu][48])', 'fortran_order': False, 'shape': \((\d{1,9}),\), \} *\n", re.DOTALL
)


def read_samples(path: str, most_bytes: int) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of a file of samples by name; raises what `read_arrays` raises."""
    data = _content(path)
    arrays = None if data is None else _arrays(data)
    return read_arrays(Path(path), most_bytes) if arrays is None else arrays


def _content(path: str) -> bytes | None:
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_QUICK_BYTES:
            return None
        return os.read(number, status.st_size)
    finally:
        os.close(number)


def _arrays(data: bytes) -> dict[str, NDArray[np.float64]] | None:
    """Return the arrays of an archive, None if it is not exactly as tare writes it."""
    import numpy as np

    arrays, at = {}, 0
    while data.startswith(b"PK\x03\x04", at):
        if len(data) < at + _MEMBER.size:
            return None
        _, _, flags, method, _, _, crc, stored, size, name_bytes, extra_bytes = _MEMBER.unpack_from(data, at)
        at += _MEMBER.size
        name = data[at : at + name_bytes]
        at += name_bytes + extra_bytes
        content = data[at : at + size]
        header = _ARRAY.match(content)
        if flags or method or size != stored or len(content) != size or not header or zlib.crc32(content) != crc:
            return None
        dtype, count = _dtype(header[1]), int(header[2])
        if size != header.end() + count * dtype.itemsize or not name.isascii() or not name.endswith(b".npy"):
            return None
        arrays[name[:-4].decode("ascii")] = np.frombuffer(content, dtype, count, header.end())
        at += size
    return arrays if data.startswith(b"PK\x01\x02", at) else None


@cache
def _dtype(name: bytes) -> np.dtype[np.float64]:
    import numpy as np

    return np.dtype(name.decode("ascii"))
