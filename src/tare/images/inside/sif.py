"""Find the root file system in a SIF, the format of Apptainer and Singularity (github.com/apptainer/sif, pkg/sif).

A SIF begins with a line that starts it, a magic word, and a table of what is in the file. The root file system is the
primary partition of the system, a squashfs at some offset.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.errors import ImageError
from tare.images.inside.archive import ARCHITECTURES, architecture

LAUNCH_BYTES: Final = 32
MAGIC: Final = b"SIF_MAGIC\0"
HEADER: Final = struct.Struct("<32s10s3s3s16sqqqqqqqq")
DESCRIPTOR: Final = struct.Struct("<i?IIIqqqqqqq128s384s")
PARTITION: Final = struct.Struct("<ii3s")
DATA_PARTITION: Final = 0x4004
SQUASHFS: Final = 1
ENCRYPTED: Final = 5
PRIMARY_SYSTEM: Final = 2
MOST_DESCRIPTORS: Final = 4096
MACHINES: Final = {b"02": "amd64", b"04": "arm64", b"06": "ppc64le", b"09": "s390x"}
SQUASHFS_MAGIC: Final = b"hsqs"
SQUASHFS_BYTES_AT: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The location of a squashfs in a file."""

    offset: int
    size_bytes: int


def is_sif(head: bytes) -> bool:
    """Return whether a file with this beginning is a SIF."""
    return head[LAUNCH_BYTES : LAUNCH_BYTES + len(MAGIC)] == MAGIC


def root_partition(path: Path) -> Partition:
    """Return the location of the root file system.

    Raise `ImageError` for a SIF that is unreadable or for another CPU.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(HEADER.size)
        if len(header) < HEADER.size:
            raise truncated(path, size)
        *_, total, at, _, _, _ = HEADER.unpack(header)
        if not 0 <= total <= MOST_DESCRIPTORS or not HEADER.size <= at:
            raise ImageError(f"{path} is damaged: its table of contents is invalid", remedy="copy it again")
        if at + total * DESCRIPTOR.size > size:
            raise truncated(path, size)
        file.seek(at)
        table = file.read(total * DESCRIPTOR.size)
    if len(table) < total * DESCRIPTOR.size:
        raise truncated(path, size)
    for kind, used, _, _, _, offset, length, _, _, _, _, _, _, extra in DESCRIPTOR.iter_unpack(table):
        file_system, part, machine = PARTITION.unpack_from(extra)
        if kind != DATA_PARTITION or not used or part != PRIMARY_SYSTEM:
            continue
        _check(path, file_system, machine.rstrip(b"\0"))
        if offset < 0 or length < 0 or offset + length > size:
            raise truncated(path, size)
        return Partition(offset=offset, size_bytes=length)
    raise ImageError(f"{path} is a SIF without a root file system", remedy="rebuild it: apptainer build")


def squashfs_partition(path: Path) -> Partition:
    """Return the location of the squashfs in a file that is a squashfs as a whole.

    Raise `ImageError` if it is truncated.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(SQUASHFS_BYTES_AT + 8)
    stated = int.from_bytes(head[SQUASHFS_BYTES_AT:], "little")
    if len(head) < SQUASHFS_BYTES_AT + 8 or stated > size:
        raise truncated(path, size)
    return Partition(offset=0, size_bytes=stated)


def truncated(path: Path, size: int) -> ImageError:
    """Return the error for a truncated file."""
    return ImageError(f"{path} is truncated after {size} bytes", remedy=f"copy it again to {os.fspath(path)}")


def _check(path: Path, file_system: int, machine: bytes) -> None:
    if file_system == ENCRYPTED:
        raise ImageError(f"{path} is encrypted", remedy="name an image that is not encrypted")
    if file_system != SQUASHFS:
        raise ImageError(f"{path} contains no squashfs", remedy="rebuild it: apptainer build")
    made_for = MACHINES.get(machine, "")
    if made_for and made_for != architecture() and architecture() in ARCHITECTURES.values():
        raise ImageError(f"{path} is for {made_for}, and this machine is {architecture()}")
