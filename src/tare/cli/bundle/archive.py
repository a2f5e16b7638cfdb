"""Write zip files whose bytes depend on their contents alone: sorted names, one date, one mode."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The date of every member: the oldest that a zip file can have."""

_MODE: Final = 0o100644 << 16
_STORED: Final = (".whl",)
_PIECE_BYTES: Final = 1 << 20

Content = bytes | Path


def write_zip(target: Path, files: Mapping[str, Content], *, head: bytes = b"", first: str = "") -> None:
    """Write files, given as bytes or as paths, by their names; `head` precedes the zip, `first` is the first member."""
    with target.open("wb") as file:
        file.write(head)
        with zipfile.ZipFile(file, "w") as archive:
            for name in sorted(files, key=lambda name: (name != first, name)):
                _add(archive, name, files[name])


def _add(archive: zipfile.ZipFile, name: str, content: Content) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.external_attr = _MODE
    info.compress_type = zipfile.ZIP_STORED if name.endswith(_STORED) else zipfile.ZIP_DEFLATED
    if isinstance(content, bytes):
        archive.writestr(info, content)
        return
    info.file_size = content.stat().st_size
    with content.open("rb") as source, archive.open(info, "w") as member:
        while piece := source.read(_PIECE_BYTES):
            member.write(piece)
