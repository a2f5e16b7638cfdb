"""A user's own image: a SIF, a squashfs, a tar of Docker or OCI, or a folder, brought into the cache once.

Files are unpacked to where images of recipes are, named by the digest of their content. A folder is used where it is
and never written to; its digest is that of names, sizes and dates. An entry point is not looked at: what runs is said
by the study or the command. The image's variables are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

from tare import process
from tare.errors import CommandFailed, InfrastructureError, UsageError
from tare.images import sif
from tare.images.archive import architecture, sha256_of
from tare.images.build import RECORD, Image, read_image
from tare.images.cache import Progress, locked, made_whole, silent
from tare.images.recipe import MOUNT_FILES, MOUNT_POINTS
from tare.images.usage import keep
from tare.images.variables import checked, merged, variables_of
from tare.namespaces import plain_python
from tare.paths import cache_folder

UNPACK: Final = Path(__file__).parent / "unpack.py"
KERNELS_FOLDERS: Final = ("dev", "proc", "sys", "tmp")
_LIMIT_S: Final = 900.0
_BLOB: Final = re.compile(r"sha256:([0-9a-f]{64})")
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_KINDS: Final = "a SIF, a squashfs, a tar of `docker save` or of an OCI layout, or a folder"

Opener = Callable[[str], IO[bytes]]


def ensure_own(path: Path, cache_dir: Path | None = None, progress: Progress = silent) -> Image:
    """Return a user's own image, unpacking it first where it is not in the cache.

    Raises `UsageError` saying what is wrong with the file, `MissingTool` naming what unpacks it.
    """
    path = Path(os.path.abspath(path))
    kind = kind_of(path)
    digest = _digest(path, kind)
    place = (cache_dir or cache_folder()) / "images" / digest
    keep(place)
    if (found := read_image(place)) is not None:
        return _at(found, path)
    with locked(place, what=f"image {path.name}", progress=progress):
        if (found := read_image(place)) is not None:
            return _at(found, path)
        with made_whole(place) as work:
            record = {"name": path.name, "digest": digest, "source": str(path), "kind": kind}
            (work / RECORD).write_text(json.dumps(record | _made(path, kind, work, progress), indent=1) + "\n")
    made = read_image(place)
    if made is None:
        raise InfrastructureError(f"{place} was removed while it was made", remedy="run the same command again")
    return _at(made, path)


def _at(image: Image, path: Path) -> Image:
    """Return an image with the path that was given now: the same content may have been at another one before."""
    return replace(image, name=path.name, source=str(path), sif=path if image.sif is not None else None)


def kind_of(path: Path) -> str:
    """Return what a path is: sif, squashfs, archive, layout (a folder) or directory; raise `UsageError` otherwise."""
    if not path.exists():
        raise UsageError(f"there is no image at {path}", remedy=f"name {_KINDS}")
    if path.is_dir():
        return "layout" if (path / "oci-layout").is_file() else "directory"
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise UsageError(f"the image {path} cannot be read: {error.strerror}") from error
    if sif.is_sif(head):
        return "sif"
    if head.startswith(sif.SQUASHFS_MAGIC):
        return "squashfs"
    try:
        with tarfile.open(path):
            return "archive"
    except (tarfile.TarError, EOFError, OSError):
        what = "is no SIF" if path.suffix == ".sif" else "is no image that can be used"
        raise UsageError(f"{path} {what if head else 'is empty'}", remedy=f"name {_KINDS}") from None


def _digest(path: Path, kind: str) -> str:
    """Return the digest by which the cache knows an image: of a file's content, of a folder's metadata."""
    told = _metadata(path) if path.is_dir() else sha256_of(path)
    return hashlib.sha256(f"{kind} {told} {sorted(MOUNT_POINTS)}".encode()).hexdigest()[:32]


def _metadata(folder: Path) -> str:
    total = hashlib.sha256(str(folder).encode())
    for at, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            each = Path(at, name)
            told = each.lstat()
            total.update(f"{each} {told.st_mode} {told.st_size} {told.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


def _made(path: Path, kind: str, work: Path, progress: Progress) -> dict[str, Any]:
    """Make what of an image is in the cache, in `work`, and return what its record says beside its name."""
    if kind == "directory":
        lacking = [name for name in KERNELS_FOLDERS if not (path / name).is_dir()]
        if lacking:
            raise UsageError(
                f"{path} is no root file system: it has no {', '.join(lacking)}",
                remedy="name the folder in which bin, lib, proc, ... are, or make the empty folders",
            )
        return {"rootfs": str(path), "variables": variables_of(path)}
    progress(f"image {path.name}: unpacking it")
    rootfs = work / "rootfs"
    rootfs.mkdir(mode=0o755)
    variables: tuple[str, ...] = ()
    match kind:
        case "sif":
            _unsquash(path, sif.root_partition(path), rootfs)
        case "squashfs":
            _unsquash(path, sif.squashfs_partition(path), rootfs)
        case _:
            variables = _layers(path, rootfs, work)
    _make_mountable(rootfs)
    own = {"sif": str(path)} if kind == "sif" else {}
    return {**own, "variables": merged(variables_of(rootfs), variables)}


def _unsquash(path: Path, where: sif.Partition, rootfs: Path) -> None:
    program = process.need("unsquashfs", package="squashfs-tools")
    argv = (program, "-no-progress", "-quiet", "-no-xattrs", "-force", "-offset", str(where.offset),
            "-dest", str(rootfs), str(path))  # fmt: skip
    done = process.run(argv, timeout_s=_LIMIT_S, check=False)
    # 2: something could not be made as it was, as device nodes by an ordinary user
    if done.status not in ((0,) if os.geteuid() == 0 else (0, 2)) or not any(rootfs.iterdir()):
        said = (done.stderr_tail or done.stdout.strip()).splitlines()[-1:] or ["it said nothing"]
        raise UsageError(f"{path} cannot be unpacked: {said[0]}", remedy="copy it again, or build it anew")


def _layers(path: Path, rootfs: Path, work: Path) -> tuple[str, ...]:
    """Unpack the layers of an archive or layout and return its configuration's variables."""
    try:
        with ExitStack() as stack:
            opener = _files_of(path, stack)
            config, layers = _docker_manifest(opener) or _oci_manifest(opener, path)
            machine = config.get("architecture", architecture())
            if machine != architecture():
                raise UsageError(f"{path} is for {machine}, and this machine is {architecture()}")
            for name in layers:
                _unpack_layer(opener(name), rootfs, work, path)
    except KeyError as error:
        lacking = str(error).strip("\"'")
        raise UsageError(f"{path} is no image: {lacking} is not in it", remedy=f"name {_KINDS}") from error
    except (tarfile.TarError, EOFError, OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path} is truncated or damaged: {error}", remedy="copy it again") from error
    return checked((config.get("config") or {}).get("Env") or ())


def _files_of(path: Path, stack: ExitStack) -> Opener:
    """Return what opens a file of an archive, or of a layout that is a folder, by its name."""
    if path.is_dir():
        return lambda name: stack.enter_context((path / name).open("rb"))
    archive = stack.enter_context(tarfile.open(path))  # noqa: SIM115 - the stack closes it
    members = {member.name.removeprefix("./"): member for member in archive.getmembers()}

    def opened(name: str) -> IO[bytes]:
        file = archive.extractfile(members[name])
        if file is None:
            raise KeyError(name)
        return file

    return opened


def _docker_manifest(opener: Opener) -> tuple[dict[str, Any], list[str]] | None:
    """Return configuration and layers of a Docker archive, None where it is none."""
    try:
        manifest = json.load(opener("manifest.json"))
    except (KeyError, FileNotFoundError):
        return None
    if len(manifest) != 1:
        raise ValueError(f"it holds {len(manifest)} images, and one is needed")
    return json.load(opener(manifest[0]["Config"])), list(manifest[0]["Layers"])


def _oci_manifest(opener: Opener, path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return configuration and layers of an OCI layout, following an index of several platforms to this machine's."""
    told = json.load(opener("index.json"))
    while "manifests" in told:
        stated = told["manifests"]
        fitting = [
            each
            for each in stated
            if (each.get("platform") or {}).get("architecture", architecture()) == architecture()
        ]
        if not fitting:
            raise UsageError(f"{path} has no image for this machine, which is {architecture()}")
        told = json.load(opener(_blob(fitting[0])))
    return json.load(opener(_blob(told["config"]))), [_blob(layer) for layer in told["layers"]]


def _blob(descriptor: dict[str, Any]) -> str:
    match = _BLOB.fullmatch(descriptor["digest"])
    if match is None:
        raise ValueError(f"a digest that is none: {descriptor['digest']!r}")
    return f"blobs/sha256/{match[1]}"


def _unpack_layer(layer: IO[bytes], rootfs: Path, work: Path, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        file = Path(scratch) / "layer"
        with file.open("wb") as copy:
            shutil.copyfileobj(layer, copy)
        with file.open("rb") as copy:
            compressed = copy.read(4) == _ZSTD
        if compressed:
            packed = file.rename(file.with_suffix(".zst"))
            zstd = process.need("zstd", package="zstd")
            process.run((zstd, "--quiet", "--decompress", str(packed), "-o", str(file)), timeout_s=_LIMIT_S)
        rights = () if os.geteuid() == 0 else ("unshare", "--map-root-user", "--")
        try:
            process.run((*rights, plain_python(), "-IS", str(UNPACK), str(rootfs), str(file)), timeout_s=_LIMIT_S)
        except CommandFailed as error:
            raise UsageError(f"a layer of {path} cannot be unpacked: {error.stderr_tail[-300:]}") from error


def _make_mountable(rootfs: Path) -> None:
    """Make what runtimes mount over, where an image that was unpacked into the cache lacks it."""
    for name in MOUNT_POINTS:
        if not os.path.lexists(rootfs / name):
            (rootfs / name).mkdir()
    if not os.path.lexists(rootfs / "etc"):
        (rootfs / "etc").mkdir()
    for name, text in MOUNT_FILES.items():
        place = rootfs / name
        if (rootfs / "etc").is_symlink():
            return
        if place.is_symlink() or not place.exists():
            place.unlink(missing_ok=True)
            place.write_text(text)
