"""Unpack the layers of a `docker save` tar, of an OCI image layout in a tar, or of a layout in a folder.

The author of an image also wrote its manifests. Everything that they name must be a regular file of the image; their
number, their nesting, and the unpacked size are bounded. Anything else is an `ImageError`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import posixpath
import re
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, cast

from tare.errors import CommandFailed, ImageError
from tare.host import process
from tare.host.namespaces import plain_python
from tare.images.inside.archive import architecture
from tare.images.inside.below import open_file
from tare.images.inside.budget import MOST_MEMBERS, Budget, too_large
from tare.images.inside.inspect import plain
from tare.images.inside.variables import select_settable

UNPACK: Final = Path(__file__).parent / "unpack.py"
KINDS: Final = "a SIF, a squashfs, a tar of `docker save` or of an OCI layout, or a folder"
MOST_LAYERS: Final = 512
DEEPEST_INDEX: Final = 8
MOST_TEXT_BYTES: Final = 8 << 20
"""The largest manifest, index or configuration; real ones have some kilobytes."""

MOST_LINKS: Final = 8
LONGEST_READ: Final = 64 << 20
_LIMIT_S: Final = 900.0
_BLOB: Final = re.compile(r"sha256:([0-9a-f]{64})")
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PACKED: Final[Mapping[bytes, Callable[[Path], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}
"""Decompressors for a tar, by its first bytes."""

DAMAGES: Final = (
    tarfile.TarError, EOFError, OSError, ValueError, OverflowError, RecursionError, zlib.error, lzma.LZMAError
)  # fmt: skip
"""Exceptions of the libraries that read an image, if it is damaged."""

Opener = Callable[[str], BinaryIO]


def is_tar(path: Path) -> bool:
    """Return whether a file is a tar, compressed or not."""
    try:
        with ExitStack() as stack:
            _archive(path, stack)
    except (*DAMAGES, ImageError):
        return False
    return True


def unpack_layers(path: Path, rootfs: Path, work: Path) -> tuple[str, ...]:
    """Unpack an image's layers into a folder, with scratch files in `work`; return its configuration's variables."""
    try:
        with ExitStack() as stack:
            opener = _files_of(path, stack)
            config, layers = _docker_manifest(opener) or _oci_manifest(opener, path)
            variables = _variables(config)
            machine = config.get("architecture", architecture())
            if machine != architecture():
                raise ImageError(f"{path} is for {plain(str(machine)[:40])}, and this machine is {architecture()}")
            if len(layers) > MOST_LAYERS:
                raise ImageError(f"{path} has {len(layers)} layers; at most {MOST_LAYERS} are allowed")
            budget = Budget(work)
            for name in layers:
                with opener(name) as layer:
                    _unpack_layer(layer, rootfs, work, path, budget)
    except KeyError as error:
        lacking = plain(str(error.args[0])[:200])
        raise ImageError(f"{path} is not an image: it lacks {lacking}", remedy=f"name {KINDS}") from error
    except DAMAGES as error:
        raise ImageError(
            f"{path} is truncated or damaged: {plain(str(error)[:200])}", remedy="copy it again"
        ) from error
    return select_settable(variables)


# --- files of an image ----------------------------------------------------------------------------------------------


class _Bounded(io.RawIOBase):
    """An untrusted tar, read with bounded read sizes and offsets.

    A header can claim that its own text has exabytes, or a negative size.
    """

    def __init__(self, file: BinaryIO, most_bytes: int, path: Path) -> None:
        self._file, self._most_bytes, self._path = file, most_bytes, path

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LONGEST_READ:
            raise tarfile.ReadError("a header has an invalid size")
        content = self._file.read(size)
        self._check(self._file.tell())
        return content

    def seek(self, offset: int, whence: int = 0) -> int:
        self._check(offset)
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def _check(self, offset: int) -> None:
        if offset > self._most_bytes:
            raise too_large(self._path, self._most_bytes)


def _archive(path: Path, stack: ExitStack) -> tarfile.TarFile:
    """Open a tar; reading never exceeds the size that the file may have when it is unpacked."""
    with path.open("rb") as file:
        head = file.read(8)
    opened = next((opener for magic, opener in _PACKED.items() if head.startswith(magic)), None)
    size = path.stat().st_size
    file = stack.enter_context(opened(path) if opened else path.open("rb"))
    most_bytes = Budget.most_of(size) if opened else sys.maxsize
    bounded = cast("IO[bytes]", _Bounded(file, most_bytes, path))
    return stack.enter_context(tarfile.open(fileobj=bounded, mode="r:"))


def _files_of(path: Path, stack: ExitStack) -> Opener:
    """Return a function that opens a file of an archive, or of a layout in a folder, by its name."""
    if path.is_dir():
        return lambda name: _opened_below(path, name)
    archive = _archive(path, stack)
    members: dict[str, tarfile.TarInfo] = {}
    for number, member in enumerate(archive):
        if number >= MOST_MEMBERS or member.size < 0:
            raise tarfile.ReadError(f"it has more than {MOST_MEMBERS} members, or one of a negative size")
        members[member.name.removeprefix("./")] = member
    return lambda name: _opened_member(archive, members, name)


def _opened_below(folder: Path, name: str) -> BinaryIO:
    try:
        return open_file(folder, name)
    except FileNotFoundError:
        raise KeyError(name) from None


def _opened_member(archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], name: str) -> BinaryIO:
    """Open a member, or the target of a link: older versions of `docker save` link identical layers."""
    at = name
    for _ in range(MOST_LINKS):
        member = members[at]
        if member.isreg():
            return cast("BinaryIO", archive.extractfile(member))
        if not (member.issym() or member.islnk()):
            break
        folder = posixpath.dirname(at) if member.issym() else ""
        at = posixpath.normpath(posixpath.join(folder, member.linkname))
    raise ValueError(f"{name} is not a regular file")


# --- manifests ------------------------------------------------------------------------------------------------------


def _docker_manifest(opener: Opener) -> tuple[dict[str, Any], list[str]] | None:
    """Return configuration and layers of a Docker archive, None if it is not one."""
    try:
        manifest = _json(opener, "manifest.json")
    except KeyError:
        return None
    if not isinstance(manifest, list) or len(manifest) != 1:
        count = len(manifest) if isinstance(manifest, list) else "no"
        raise ValueError(f"it holds {count} images; it must hold one")
    stated = _object(manifest[0], "manifest.json")
    config = _object(_json(opener, _name(stated.get("Config"))), "its configuration")
    return config, [_name(layer) for layer in _list(stated.get("Layers"), "Layers")]


def _oci_manifest(opener: Opener, path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return configuration and layers of an OCI layout, following an index of several platforms to this machine's."""
    stated = _object(_json(opener, "index.json"), "index.json")
    for _ in range(DEEPEST_INDEX):
        if "manifests" not in stated:
            config = _object(_json(opener, _blob(stated.get("config"))), "its configuration")
            return config, [_blob(layer) for layer in _list(stated.get("layers"), "layers")]
        listed = [_object(manifest, "a manifest") for manifest in _list(stated["manifests"], "manifests")]
        fitting = [manifest for manifest in listed if _machine_of(manifest) == architecture()]
        if not fitting:
            raise ImageError(f"{path} has no image for this machine, which is {architecture()}")
        stated = _object(_json(opener, _blob(fitting[0])), "a manifest")
    raise ValueError(f"its indexes are nested more than {DEEPEST_INDEX} deep")


def _machine_of(descriptor: Mapping[str, Any]) -> object:
    platform = descriptor.get("platform")
    return _object(platform, "platform").get("architecture", architecture()) if platform else architecture()


def _variables(config: Mapping[str, Any]) -> list[str]:
    inner = config.get("config") or {}
    listed = _list(_object(inner, "config").get("Env") or [], "Env")
    if not all(isinstance(variable, str) for variable in listed):
        raise ValueError("Env is not a list of strings")
    return listed


def _json(opener: Opener, name: str) -> object:
    with opener(name) as file:
        content = file.read(MOST_TEXT_BYTES + 1)
    if len(content) > MOST_TEXT_BYTES:
        raise ValueError(f"{name} has more than {MOST_TEXT_BYTES} bytes")
    return json.loads(content)


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} is not a list")
    return value


def _name(value: object) -> str:
    """Return a member's name from a manifest; it must stay inside the image."""
    if not isinstance(value, str) or not value or value.startswith("/") or ".." in value.split("/") or "\0" in value:
        raise ValueError(f"its manifest names an invalid file: {str(value)[:100]!r}")
    return value.removeprefix("./")


def _blob(descriptor: object) -> str:
    digest = _object(descriptor, "a descriptor").get("digest")
    match = _BLOB.fullmatch(digest) if isinstance(digest, str) else None
    if match is None:
        raise ValueError(f"invalid digest: {str(digest)[:100]!r}")
    return f"blobs/sha256/{match[1]}"


# --- layers ---------------------------------------------------------------------------------------------------------


def _unpack_layer(layer: BinaryIO, rootfs: Path, work: Path, path: Path, budget: Budget) -> None:
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        file = Path(scratch) / "layer"
        with file.open("wb") as copy:
            _copy(layer, copy, path, budget)
        most_bytes = min(budget.most_of(file.stat().st_size), budget.left_bytes)
        with file.open("rb") as copy:
            compressed = copy.read(4) == _ZSTD
        if compressed:
            file = _decompressed(file, most_bytes, path)
        unpack_tar(file, rootfs, path, budget, most_bytes)


def unpack_tar(file: Path, rootfs: Path, path: Path, budget: Budget, most_bytes: int | None = None) -> None:
    """Unpack a tar over the files in a folder; raise `ImageError`, which names `path`, if it is damaged or too large.

    No name and no link in it leads outside; it may have `most_bytes`, or as many as the budget has left.
    """
    rights = () if os.geteuid() == 0 else ("unshare", "--map-root-user", "--")
    limits = (str(budget.left_members), str(budget.left_bytes if most_bytes is None else most_bytes))
    argv = (*rights, plain_python(), "-IS", str(UNPACK), str(rootfs), str(file), *limits)
    try:
        done = process.run(argv, timeout_s=_LIMIT_S)
    except CommandFailed as error:
        raise ImageError(f"a layer of {path} cannot be unpacked: {plain(error.stderr_tail[-300:])}") from error
    budget.spend(*map(int, done.stdout.split()))


def _copy(layer: BinaryIO, copy: BinaryIO, path: Path, budget: Budget) -> None:
    left = budget.left_bytes
    while piece := layer.read(min(1 << 20, left + 1)):
        left -= len(piece)
        if left < 0:
            raise too_large(path, budget.left_bytes)
        copy.write(piece)


def _decompressed(file: Path, most_bytes: int, path: Path) -> Path:
    packed = file.rename(file.with_suffix(".zst"))
    bound = (process.need("prlimit", package="util-linux"), f"--fsize={most_bytes}", "--")
    zstd = process.need("zstd", package="zstd")
    argv = (*bound, zstd, "--quiet", "--decompress", str(packed), "-o", str(file))
    try:
        process.run(argv, timeout_s=_LIMIT_S)
    except CommandFailed as error:
        why = plain(error.stderr_tail[-200:]) or f"it has more than {most_bytes} bytes"
        raise ImageError(f"a layer of {path} cannot be decompressed: {why}") from error
    packed.unlink()
    return file
