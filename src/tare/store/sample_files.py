"""Read files of samples quickly if they are as tare writes them; others through `tare.system.foreign_files`."""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tare.system.foreign_files import read_arrays

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_QUICK_BYTES: Final = 16 << 20
_MEMBER: Final = struct.Struct("<4sHHHHHIIIHH")
"""A member's header in a zip archive: signature, version, flags, compression, time, date, CRC, sizes, lengths."""
_LISTED: Final = struct.Struct("<4s4xHHHHIIIHHH12x")
"""The same member in the archive's directory: signature, flags to lengths of name, extra field and comment."""
_END: Final = b"PK\x05\x06"
_ARRAY: Final = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(<[fiu][48])', 'fortran_order': False, 'shape': \((\d{1,9}),\), \} *\n", re.DOTALL
)


def read_samples(path: str, most_bytes: int) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of a file of samples by name; raises what `read_arrays` raises."""
    data = _content(path, min(MOST_QUICK_BYTES, most_bytes))
    arrays = None if data is None else _arrays(data)
    return read_arrays(Path(path), most_bytes) if arrays is None else arrays


def _content(path: str, most_bytes: int) -> bytes | None:
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            return None
        return os.read(number, status.st_size)
    finally:
        os.close(number)


def _arrays(data: bytes) -> dict[str, NDArray[np.float64]] | None:
    """Return the arrays of an archive, None if it is not exactly as tare writes it."""
    import numpy as np

    arrays, at, members = {}, 0, []
    while data.startswith(b"PK\x03\x04", at):
        if len(data) < at + _MEMBER.size:
            return None
        header = _MEMBER.unpack_from(data, at)
        _, _, flags, method, _, _, crc, stored, size, name_bytes, extra_bytes = header
        at += _MEMBER.size
        name = data[at : at + name_bytes]
        at += name_bytes + extra_bytes
        content = data[at : at + size]
        array = _ARRAY.match(content)
        if flags or method or size != stored or len(content) != size or not array or zlib.crc32(content) != crc:
            return None
        dtype, count = _dtype(array[1]), int(array[2])
        if size != array.end() + count * dtype.itemsize or not name.isascii() or not name.endswith(b".npy"):
            return None
        arrays[name[:-4].decode("ascii")] = np.frombuffer(content, dtype, count, array.end())
        at += size
        members.append((*header[2:9], name))
    return arrays if _is_directory(data, at, members) else None


def _is_directory(data: bytes, at: int, members: list[tuple[object, ...]]) -> bool:
    """Return whether an archive's directory lists exactly these members."""
    for *stated, name in members:
        if not data.startswith(b"PK\x01\x02", at) or len(data) < at + _LISTED.size:
            return False
        _, *listed, name_bytes, extra_bytes, comment_bytes = _LISTED.unpack_from(data, at)
        at += _LISTED.size
        if listed != stated or data[at : at + name_bytes] != name:
            return False
        at += name_bytes + extra_bytes + comment_bytes
    return bool(members) and data.startswith(_END, at)


@cache
def _dtype(name: bytes) -> np.dtype[np.float64]:
    import numpy as np

    return np.dtype(name.decode("ascii"))
