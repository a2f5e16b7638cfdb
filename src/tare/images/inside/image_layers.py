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
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO, Final, NamedTuple, cast

from tare.errors import CommandFailed, CommandTimeout, ImageError
from tare.images.inside import budget as bounds
from tare.images.inside.archive import architecture
from tare.images.inside.budget import UnpackBudget, limited
from tare.images.inside.inspect import plain
from tare.images.inside.safe_paths import open_file
from tare.images.inside.variables import select_settable
from tare.system import process
from tare.system.namespaces import plain_python

UNPACK: Final = Path(__file__).parent / "unpack.py"
KINDS: Final = "a SIF, a squashfs, a tar of `docker save` or of an OCI layout, or a folder"
MOST_LINKS: Final = 8
_BLOB: Final = re.compile(r"sha256:([0-9a-f]{64})")
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PACKED: Final[Mapping[bytes, ModuleType]] = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\0": lzma}
"""Decompressors for a tar, by its first bytes."""

_DECOMPRESS: Final = "import {0}, shutil, sys; shutil.copyfileobj({0}.open(sys.argv[1]), open(sys.argv[2], 'wb'))"
DAMAGES: Final = (
    tarfile.TarError, EOFError, OSError, ValueError, OverflowError, RecursionError, MemoryError, zlib.error,
    lzma.LZMAError,
)  # fmt: skip
"""Exceptions of the libraries that read an image, if it is damaged."""


class LayeredFile(NamedTuple):
    """A file of an image: what tells it from the others, its size, and its content."""

    key: object
    size_bytes: int
    content: BinaryIO


Opener = Callable[[str], LayeredFile]


def is_tar(path: Path) -> bool:
    """Return whether a file is a tar, compressed or not."""
    try:
        packed = _module_of(path)
        with packed.open(path) if packed else path.open("rb") as file:
            _archive(file).close()
    except _ExcessError:
        return True  # the reason is given where it is read
    except DAMAGES:
        return False
    return True


def unpack_layers(path: Path, rootfs: Path, work: Path, say: Callable[[str], object]) -> tuple[str, ...]:
    """Unpack an image's layers into a folder, with scratch files in `work`; return its configuration's variables."""
    try:
        with ExitStack() as stack:
            budget = UnpackBudget(path, work, 0 if path.is_dir() else path.stat().st_size)
            opener = _files_of(path, work, budget, stack)
            config, layers = _docker_manifest(opener) or _oci_manifest(opener, path)
            variables = _variables(config)
            machine = config.get("architecture", architecture())
            if machine != architecture():
                raise ImageError(f"{path} is for {plain(str(machine)[:40])}, and this machine is {architecture()}")
            if len(layers) > bounds.MOST_LAYERS:
                raise ImageError(f"{path} has {len(layers)} layers; at most {bounds.MOST_LAYERS} are allowed")
            _unpack_all(_announced(layers, path, say), opener, rootfs, work, path, budget)
    except KeyError as error:
        lacking = plain(str(error.args[0])[:200])
        raise ImageError(f"{path} is not an image: it lacks {lacking}", remedy=f"name {KINDS}") from error
    except DAMAGES as error:
        raise ImageError(
            f"{path} is truncated or damaged: {plain(str(error)[:200])}", remedy="copy it again"
        ) from error
    return select_settable(variables)


# --- files of an image ----------------------------------------------------------------------------------------------


class _ExcessError(tarfile.ReadError):
    """A tar has more, or longer, headers than it may."""


class _Headers(io.RawIOBase):
    """The headers of an untrusted tar, of which a bounded part is read.

    A header can claim that its own text has exabytes, or a negative size, and tarfile would keep the text.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, bounds.MOST_HEADERS_BYTES

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            raise tarfile.ReadError("a header has an invalid size")
        if size > bounds.LONGEST_HEADER_BYTES:
            raise _ExcessError(f"a header has more than {bounds.LONGEST_HEADER_BYTES} bytes")
        self._left -= size
        if self._left < 0:
            raise _ExcessError(f"its headers have more than {bounds.MOST_HEADERS_BYTES} bytes together")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _archive(file: BinaryIO) -> tarfile.TarFile:
    return tarfile.open(fileobj=cast("IO[bytes]", _Headers(file)), mode="r:")


def _module_of(path: Path) -> ModuleType | None:
    with path.open("rb") as file:
        head = file.read(8)
    return next((module for magic, module in _PACKED.items() if head.startswith(magic)), None)


def _files_of(path: Path, work: Path, budget: UnpackBudget, stack: ExitStack) -> Opener:
    """Return a function that opens a file of an archive, or of a layout in a folder, by its name."""
    if path.is_dir():
        return lambda name: _opened_below(path, name)
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=work)))
    file = stack.enter_context(_decompressed(path, scratch / "archive", path, budget).open("rb"))
    archive = stack.enter_context(_archive(file))
    members: dict[str, tarfile.TarInfo] = {}
    for number, member in enumerate(archive):
        if number >= bounds.MOST_ARCHIVE_MEMBERS or member.size < 0:
            raise tarfile.ReadError(f"it has more than {bounds.MOST_ARCHIVE_MEMBERS} members, or a negative size")
        member.pax_headers = archive.pax_headers = {}  # else each member that follows gets a copy
        members[member.name.removeprefix("./")] = member
    archive.fileobj = file
    return lambda name: _opened_member(archive, members, name)


def _opened_below(folder: Path, name: str) -> LayeredFile:
    try:
        content = open_file(folder, name)
    except FileNotFoundError:
        raise KeyError(name) from None
    status = os.fstat(content.fileno())
    return LayeredFile((status.st_dev, status.st_ino), status.st_size, content)


def _opened_member(archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], name: str) -> LayeredFile:
    """Open a member, or the target of a link: older versions of `docker save` link identical layers."""
    at = name
    for _ in range(MOST_LINKS):
        member = members[at]
        if member.isreg():
            return LayeredFile(at, member.size, cast("BinaryIO", archive.extractfile(member)))
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
    for _ in range(bounds.DEEPEST_INDEX):
        if "manifests" not in stated:
            config = _object(_json(opener, _blob(stated.get("config"))), "its configuration")
            return config, [_blob(layer) for layer in _list(stated.get("layers"), "layers")]
        listed = [_object(manifest, "a manifest") for manifest in _list(stated["manifests"], "manifests")]
        fitting = [manifest for manifest in listed if _machine_of(manifest) == architecture()]
        if not fitting:
            raise ImageError(f"{path} has no image for this machine, which is {architecture()}")
        stated = _object(_json(opener, _blob(fitting[0])), "a manifest")
    raise ValueError(f"its indexes are nested more than {bounds.DEEPEST_INDEX} deep")


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
    with opener(name).content as file:
        content = file.read(bounds.MOST_TEXT_BYTES + 1)
    if len(content) > bounds.MOST_TEXT_BYTES:
        raise ValueError(f"{name} has more than {bounds.MOST_TEXT_BYTES} bytes")
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


def _announced(layers: Sequence[str], path: Path, say: Callable[[str], object]) -> Iterator[str]:
    """Yield the layers, and say now and then which one is unpacked."""
    said = time.monotonic()
    for number, name in enumerate(layers, 1):
        if time.monotonic() - said >= bounds.SAY_EVERY_S:
            say(f"image {path.name}: unpacking layer {number} of {len(layers)}")
            said = time.monotonic()
        yield name


def _unpack_all(
    layers: Iterator[str], opener: Opener, rootfs: Path, work: Path, path: Path, budget: UnpackBudget
) -> None:
    """Unpack layers over each other; one that follows itself is left out, because it changes nothing."""
    sizes: dict[object, int] = {}
    previous: object = None
    for name in layers:
        part = opener(name)
        with part.content as content, tempfile.TemporaryDirectory(dir=work) as scratch:
            if part.key == previous:
                continue
            budget.repeat(sizes.get(part.key, 0))
            if path.is_dir() and part.key not in sizes:
                budget.add_stored(part.size_bytes)
            sizes[part.key] = _unpack_layer(content, rootfs, Path(scratch), path, budget)
            previous = part.key


def _unpack_layer(layer: BinaryIO, rootfs: Path, scratch: Path, path: Path, budget: UnpackBudget) -> int:
    """Unpack a layer, and return the size of its tar or of what was in it, whichever is larger."""
    file = scratch / "layer"
    with file.open("wb") as copy:
        left = budget.left_bytes
        while piece := layer.read(min(1 << 20, left + 1)):
            left -= len(piece)
            if left < 0:
                raise budget.too_large()
            copy.write(piece)
    tar = _decompressed(file, scratch / "tar", path, budget)
    size_bytes, before = tar.stat().st_size, budget.taken_bytes
    budget.read(size_bytes)
    unpack_tar(tar, rootfs, path, budget)
    return max(size_bytes, budget.taken_bytes - before)


def unpack_tar(file: Path, rootfs: Path, path: Path, budget: UnpackBudget) -> None:
    """Unpack a tar over the files in a folder; raise `ImageError`, which names `path`, if it is damaged or too large.

    No name and no link in it leads outside.
    """
    rights = () if os.geteuid() == 0 else ("unshare", "--map-root-user", "--")
    most = map(str, (budget.left_members, budget.left_bytes, bounds.DEEPEST, bounds.LONGEST_PATH))
    argv = (*rights, plain_python(), "-IS", str(UNPACK), str(rootfs), str(file), *most)
    try:
        done = process.run(limited(argv, bounds.MOST_BYTES), timeout_s=budget.left_s)
    except CommandFailed as error:
        raise ImageError(f"a layer of {path} cannot be unpacked: {plain(error.stderr_tail[-300:])}") from error
    except CommandTimeout as error:
        raise budget.too_slow() from error
    budget.take(*map(int, done.stdout.split()))


def _decompressed(file: Path, target: Path, path: Path, budget: UnpackBudget) -> Path:
    """Return a file if it is not compressed, else `target` with its content; raise `ImageError` naming `path`."""
    packed = _module_of(file)
    with file.open("rb") as content:
        if packed is None and content.read(4) != _ZSTD:
            return file
    if packed is not None:
        argv = (plain_python(), "-IS", "-c", _DECOMPRESS.format(packed.__name__), str(file), str(target))
    else:
        zstd = process.need("zstd", package="zstd")
        argv = (zstd, "--quiet", "--decompress", str(file), "-o", str(target))
    most_bytes = min(budget.most_of(file.stat().st_size), budget.left_bytes)
    try:
        process.run(limited(argv, most_bytes), timeout_s=budget.left_s)
    except CommandFailed as error:
        if target.exists() and target.stat().st_size >= most_bytes:
            why = f"it has more than {most_bytes / 1e9:.1f} GB"
        else:
            why = plain((error.stderr_tail.splitlines() or ["it is damaged"])[-1][-200:])
        raise ImageError(
            f"a part of {path} cannot be decompressed: {why}", remedy="copy it again, or do not use it"
        ) from error
    except CommandTimeout as error:
        raise budget.too_slow() from error
    return target
