"""Import a user's own image into the cache once: a SIF, a squashfs, a tar of Docker or OCI, or a folder.

Files are unpacked beside the images of recipes, named by the digest of their content. A folder is used in place and
never written to; its digest covers names, sizes and dates. The entry point is ignored: the study or the command says
what runs. The image's variables are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tare.errors import ImageError, UsageError
from tare.images.build import RECORD, Image, read_image
from tare.images.cache import PRIVATE, Progress, ensure, make_private, silent
from tare.images.inside import budget as bounds
from tare.images.inside import sif
from tare.images.inside.archive import sha256_of
from tare.images.inside.budget import UnpackBudget, check_depth, check_members, limited, too_large
from tare.images.inside.image_layers import KINDS, is_tar, unpack_layers
from tare.images.inside.inspect import plain
from tare.images.inside.safe_paths import make_folder, strip_privileges, write_file
from tare.images.inside.variables import merged, variables_of
from tare.images.recipe import MOUNT_FILES, MOUNT_POINTS
from tare.images.usage import mark_used
from tare.system import process
from tare.system.paths import cache_folder

KERNELS_FOLDERS: Final = ("dev", "proc", "sys", "tmp")
AGAIN: Final = "copy it again, or rebuild it"
_KINDS: Final = b"-dlbcps"
"""The first characters by which a squashfs lists its members, as `ls -l` does."""


def ensure_own(path: Path, cache_dir: Path | None = None, progress: Progress = silent) -> Image:
    """Return a user's own image; unpack it first if it is not in the cache.

    Raises `UsageError` saying what is wrong with the file, `MissingTool` naming the unpacking program.
    """
    path = Path(os.path.abspath(path))
    kind = kind_of(path)
    digest = _digest(path, kind)
    place = (cache_dir or cache_folder()) / "images" / digest
    mark_used(place)
    make_private(place)

    def make(work: Path) -> None:
        record = {"name": path.name, "digest": digest, "source": str(path), "kind": kind}
        (work / RECORD).write_text(json.dumps(record | _made(path, kind, work, progress), indent=1) + "\n")

    what = f"image {path.name}"
    image = ensure(place, partial(read_image, place), make, what=what, progress=progress, mode=PRIVATE)
    # the same content may have been at another path before
    return replace(image, name=path.name, source=str(path), sif=path if image.sif is not None else None)


def kind_of(path: Path) -> str:
    """Return what a path is: sif, squashfs, archive, layout (a folder) or directory; raise `UsageError` otherwise."""
    if not path.exists():
        raise UsageError(f"no image found at {path}", remedy=f"name {KINDS}")
    if path.is_dir():
        return "layout" if (path / "oci-layout").is_file() else "directory"
    if not path.is_file():  # a pipe or device may be endless
        raise UsageError(f"{path} is neither a file nor a folder", remedy=f"name {KINDS}")
    try:
        with path.open("rb") as file:
            head = file.read(64)
        if path.stat().st_size > bounds.MOST_BYTES:
            raise too_large(path, bounds.MOST_BYTES)
    except OSError as error:
        raise UsageError(f"the image {path} cannot be read: {error.strerror}") from error
    if sif.is_sif(head):
        return "sif"
    if head.startswith(sif.SQUASHFS_MAGIC):
        return "squashfs"
    if is_tar(path):
        return "archive"
    what = "is not a SIF" if path.suffix == ".sif" else "is not a supported image"
    raise UsageError(f"{path} {what if head else 'is empty'}", remedy=f"name {KINDS}")


def _digest(path: Path, kind: str) -> str:
    """Return the digest by which the cache identifies an image: of a file's content, of a folder's metadata."""
    try:
        content = _metadata(path) if path.is_dir() else sha256_of(path)
    except OSError as error:
        raise UsageError(f"the image {path} cannot be read: {error.strerror}") from error
    return hashlib.sha256(f"{kind} {content} {sorted(MOUNT_POINTS)}".encode()).hexdigest()[:32]


def _metadata(folder: Path) -> str:
    total = hashlib.sha256(str(folder).encode())
    members = 0
    for at, folders, files in os.walk(folder):
        members += len(folders) + len(files)
        check_members(folder, members, bounds.MOST_MEMBERS)
        check_depth(folder, at.count("/") - str(folder).count("/"))
        folders.sort()
        for name in sorted([*folders, *files]):
            file = Path(at, name)
            status = file.lstat()
            total.update(
                f"{file} {status.st_mode} {status.st_size} {status.st_mtime_ns}\n".encode(errors="surrogateescape")
            )
    return total.hexdigest()


def _made(path: Path, kind: str, work: Path, progress: Progress) -> dict[str, Any]:
    """Create an image's cache entry in `work`; return its record's fields other than the name."""
    if kind == "directory":
        lacking = [name for name in KERNELS_FOLDERS if not (path / name).is_dir()]
        if lacking:
            raise UsageError(
                f"{path} is not a root file system: it lacks {', '.join(lacking)}",
                remedy="name the folder that contains bin, lib, proc, ..., or create the empty folders",
            )
        return {"rootfs": str(path), "variables": variables_of(path)}
    progress(f"image {path.name}: unpacking it")
    rootfs = work / "rootfs"
    rootfs.mkdir(mode=0o755)
    variables: tuple[str, ...] = ()
    if kind == "sif":
        _unsquash(path, sif.root_partition(path), rootfs)
    elif kind == "squashfs":
        _unsquash(path, sif.squashfs_partition(path), rootfs)
    else:
        variables = unpack_layers(path, rootfs, work, progress)
    _make_mountable(rootfs)
    source = {"sif": str(path)} if kind == "sif" else {}
    return {**source, "variables": merged(variables_of(rootfs), variables)}


def _unsquash(path: Path, where: sif.Partition, rootfs: Path) -> None:
    program = process.need("unsquashfs", package="squashfs-tools")
    at = ("-offset", str(where.offset))
    budget = UnpackBudget(path, rootfs, path.stat().st_size)
    _check_size(path, (program, *at, "-lln", str(path)), rootfs, budget)
    argv = (program, "-no-progress", "-quiet", "-no-xattrs", "-force", *at, "-dest", str(rootfs), str(path))
    done = process.run(argv, timeout_s=budget.left_s, check=False)
    if done.timed_out:
        raise budget.too_slow()
    # 2: a file could not be created as it was, such as a device node by an ordinary user
    if done.status not in ((0,) if os.geteuid() == 0 else (0, 2)) or not any(rootfs.iterdir()):
        last_line = (done.stderr_tail or done.stdout.strip()).splitlines()[-1:] or ["no output"]
        raise ImageError(f"{path} cannot be unpacked: {plain(last_line[0])}", remedy=AGAIN)
    strip_privileges(rootfs)


def _check_size(path: Path, listing: tuple[str, ...], rootfs: Path, budget: UnpackBudget) -> None:
    """Raise `ImageError` if a squashfs lists more members or bytes than may be unpacked, or deeper folders.

    The list goes to a file of bounded size: an image chooses its names, and one with a line end in it counts twice.
    """
    with tempfile.TemporaryFile(dir=rootfs.parent) as file:
        with process.beside(limited(listing, bounds.LIST_BYTES), stdout=file.fileno()) as listed:
            while listed.poll() is None:
                time.sleep(min(0.01, budget.left_s))
        if listed.returncode and file.seek(0, os.SEEK_END) < bounds.LIST_BYTES:
            raise ImageError(f"{path} cannot be unpacked: its files cannot be listed", remedy=AGAIN)
        file.seek(0)
        while line := file.readline(2 * bounds.LONGEST_PATH):
            words = line.split(maxsplit=3)
            if len(words) > 2 and line[0] in _KINDS:
                budget.take(1, int(words[2][:30]) if line.startswith(b"-") and words[2].isdigit() else 0)
                if not line.startswith(b"l"):  # a link's target follows its path
                    check_depth(path, line.count(b"/") - 1)
    if listed.returncode:
        raise ImageError(f"{path} was not unpacked: the list of its files has more than {bounds.LIST_BYTES} bytes")


def _make_mountable(rootfs: Path) -> None:
    """Create the mount points for runtimes in an image that was unpacked into the cache, if it lacks them."""
    for name in MOUNT_POINTS:
        if not os.path.lexists(rootfs / name):
            make_folder(rootfs, name)
    if (rootfs / "etc").is_symlink():
        return
    for name, text in MOUNT_FILES.items():
        place = rootfs / name
        if place.is_symlink() or not place.exists():
            write_file(rootfs, name, text)
