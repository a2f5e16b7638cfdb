"""Files, tars, archives of docker save and OCI layouts as anybody may write them."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.images.inside import sif
from tare.images.inside.archive import architecture

Member = tuple[tarfile.TarInfo, bytes]
SECRET = "export SECRET=1\n"
"""What is in the file of the folder that stands for the host."""


def root(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs root."""
    return pytest.mark.root(pytest.mark.requires("root")(test))


def put(folder: Path, path: str, content: bytes = b"x", mode: int = 0o755) -> Path:
    """Write a file and its folders."""
    place = folder / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(mode)
    return place


def link(folder: Path, path: str, target: str | Path) -> Path:
    """Make a symbolic link and its folders, in place of one that is there."""
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    return place


def member(name: str, content: bytes = b"", **more: Any) -> Member:
    """Return an entry of a tar with its content; `more` are fields of its header."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in more.items():
        setattr(info, field, value)
    return info, content


def folder(name: str) -> Member:
    return member(name, type=tarfile.DIRTYPE, mode=0o755)


def symlink(name: str, target: str | Path) -> Member:
    return member(name, type=tarfile.SYMTYPE, linkname=str(target))


def tar(path: Path, *members: Member) -> Path:
    """Write a tar; a size that is not the content's is only stated."""
    with path.open("wb") as file:
        for info, content in members:
            file.write(info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512))
        file.write(bytes(1024))
    return path


def text(value: object) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def docker(path: Path, *members: Member, **stated: Any) -> Path:
    """Write an archive of docker save; `stated` are parts of its manifest, and `config`."""
    config = stated.pop("config", {"architecture": architecture()})
    manifest = [{"Config": "c.json", "Layers": ["l.tar"], **stated}]
    return tar(path, *members, member("c.json", text(config)), member("manifest.json", text(manifest)))


def layered(path: Path, *layers: list[Member], **stated: Any) -> Path:
    """Write an archive of docker save with layers of these members, the lowest first."""
    packed = [(f"l{number}.tar", tar(path.with_suffix(".l"), *each).read_bytes()) for number, each in enumerate(layers)]
    stated = {"Layers": [name for name, _ in packed], **stated}
    return docker(path, *(member(name, content) for name, content in packed), **stated)


def docker_of(path: Path, files: Path) -> Path:
    """Write an archive of docker save with a folder as its only layer."""
    with tarfile.open(path.with_suffix(".l"), "w") as packed:
        packed.add(files, ".")
    return docker(path, member("l.tar", path.with_suffix(".l").read_bytes()))


def squashfs(path: Path, files: Path) -> Path:
    subprocess.run(("mksquashfs", files, path, "-quiet", "-no-progress", "-noappend"), check=True)
    return path


def a_sif(content: bytes, machine: bytes, *, file_system: int = sif.SQUASHFS, part: int = sif.PRIMARY_SYSTEM) -> bytes:
    """Return a SIF with one partition of this content."""
    at, size = sif.HEADER.size, len(content)
    table = sif.DESCRIPTOR.size
    data = at + table
    header = sif.HEADER.pack(b"#!x\n", sif.MAGIC, b"01\0", machine, b"", 0, 0, 0, 1, at, table, data, size)
    extra = sif.PARTITION.pack(file_system, part, machine)
    entry = sif.DESCRIPTOR.pack(sif.DATA_PARTITION, True, 1, 1, 0, data, size, size, 0, 0, 0, 0, b"root", extra)
    return header + entry + content


def layout(folder: Path, index: object, **blobs: object) -> Path:
    """Write an OCI layout as a folder; blobs are named by a digit that is repeated."""
    put(folder, "oci-layout", b"{}")
    put(folder, "index.json", text(index))
    (folder / "blobs/sha256").mkdir(parents=True)
    for name, content in blobs.items():
        put(folder, f"blobs/sha256/{name[1:] * 64}", text(content))
    return folder


def pax(**fields: str) -> bytes:
    """Return the records of an extended header."""
    records = b""
    for name, value in fields.items():
        length = len(name) + len(value) + 3
        length += len(str(length + len(str(length))))
        records += f"{length} {name}={value}\n".encode()
    return records
