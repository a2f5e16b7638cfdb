"""Read files that others may have written: regular files of bounded size, JSON without surprises, plain arrays.

Each function raises `ValueError` with what is wrong, and `OSError` if a file cannot be read; the caller names the file.
None uses more memory than a small multiple of the file's size.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from tare.model.text import bytes_label, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEEPEST: Final = 32
"""Nesting levels of a JSON value; tare's own files have ten."""

MOST_INTEGER: Final = 1 << 64
LARGEST_FLOAT: Final = 1e100
"""Beyond it squares and sums overflow; the figures of a launch have far tighter bounds (`tare.store.plausible`)."""

MOST_ARRAYS: Final = 10_000

SEVERAL_LINES: Final = frozenset({"stderr_tail", "mounts"})
"""Texts with several lines: a program's last output, and the mounts that a rank saw."""

_MAGIC: Final = b"\x93NUMPY\x01\x00"
_MAGIC_BYTES: Final = len(_MAGIC) + 2
_HEADER: Final = re.compile(
    rb"\{'descr': '(?P<dtype>[<|][fiu][1248])', 'fortran_order': (?:True|False), "
    rb"'shape': \((?P<count>\d{1,15}),\), \} *\n"
)
"""The header that NumPy writes for a one-dimensional array; NumPy's own reader evaluates a Python expression."""


@contextmanager
def open_regular(path: Path, most_bytes: int) -> Iterator[IO[bytes]]:
    """Open a regular file, also through a symbolic link; refuse a device, or a pipe without a writer."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > most_bytes:
            raise ValueError(f"it has {status.st_size} bytes; at most {bytes_label(most_bytes)} are read")
        yield file


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file, up to its size when it was opened."""
    with open_regular(path, most_bytes) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # a larger number would be allocated at once


def read_json(data: bytes) -> Any:
    """Parse a JSON text whose numbers are finite and of usual size, and which is not nested deeply."""
    try:
        value = json.loads(data, parse_constant=refuse_constant)
        _check(value, DEEPEST)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    return value


def refuse_constant(name: str) -> None:
    """Raise `ValueError`: NaN and infinities, which Python reads, are no JSON."""
    raise ValueError(f"{name} is not a JSON number")


def _check(value: Any, levels: int) -> None:
    if isinstance(value, (str, bool)) or value is None:
        return
    if isinstance(value, int):
        if abs(value) >= MOST_INTEGER:
            raise ValueError("an integer has more than 64 bits")
    elif isinstance(value, float):
        if not (math.isfinite(value) and abs(value) <= LARGEST_FLOAT):
            raise ValueError(f"a number is {value:g}")
    elif levels == 0:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    else:
        for inner in value.values() if isinstance(value, dict) else value:
            _check(inner, levels - 1)


def make_printable(value: Any, *, lines: bool = False) -> Any:
    """Return a JSON value with printable texts, for display; a program's stderr keeps its lines."""
    if isinstance(value, str):
        return printable(value, lines=lines)
    if isinstance(value, list):
        return [make_printable(inner, lines=lines) for inner in value]
    if isinstance(value, dict):
        return {printable(key): make_printable(inner, lines=key in SEVERAL_LINES) for key, inner in value.items()}
    return value


def read_arrays(path: Path, most_bytes: int) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of an .npz file in tare's format: stored members, each a one-dimensional array.

    A member that is compressed, encrypted or claims to be larger than the file is not read.
    """
    with open_regular(path, most_bytes) as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MOST_ARRAYS:
            raise ValueError(f"it has {len(members)} members; at most {MOST_ARRAYS} are read")
        if sum(member.file_size for member in members) > os.fstat(file.fileno()).st_size:
            raise ValueError("its members claim to be larger than the file")
        return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[np.float64]:
    import numpy as np

    name = printable(member.filename)[:200]
    if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
        raise ValueError(f"its member {name} is compressed or encrypted")
    with archive.open(member) as file:
        begin = file.read(_MAGIC_BYTES)
        stated = _HEADER.fullmatch(file.read(int.from_bytes(begin[-2:], "little")))
        if begin[:-2] != _MAGIC or not stated:
            raise ValueError(f"its member {name} is not a one-dimensional array of numbers")
        data = file.read(member.file_size)
    count, dtype = int(stated["count"]), np.dtype(stated["dtype"].decode("ascii"))
    if len(data) != count * dtype.itemsize:
        raise ValueError(f"its member {name} has {len(data)} bytes of data for {count} numbers")
    return np.frombuffer(data, dtype=dtype)
