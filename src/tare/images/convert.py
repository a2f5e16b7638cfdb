"""Convert an image to the format that a runtime starts from. A file is made once: later calls find it in the cache.

    <cache>/FORMAT/<digest of the image>/   the file, and format.json with its own digest

A SIF is built from the Docker archive, as in the papers. Folders are the image's root file system itself, which is
copied only if the caller asks for a separate folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tare.errors import UsageError
from tare.images.build import Image, ensure_tar
from tare.images.cache import Progress, ensure, remove_tree, silent
from tare.images.inside import archive
from tare.images.inside.safe_paths import strip_privileges, write_file
from tare.images.usage import mark_used
from tare.system import caller_variables, process
from tare.system.safe_files import check_only_root_changes, folder_at, output_file, private_folder

FILES: Final[Mapping[str, str]] = {
    "oci": "image.oci.tar",
    "docker-archive": "image.tar",
    "sif": "image.sif",
    "squashfs": "image.squashfs",
}
"""Formats that are one file, with the file's name in the cache."""

FORMATS: Final = (*FILES, "directory", "sandbox", "charliecloud", "podman")
_RECORD: Final = "format.json"
_LIMIT_S: Final = 900.0
_FOLDERS: Final = ("TMPDIR", "APPTAINER_TMPDIR", "APPTAINER_CACHEDIR", "APPTAINER_CONFIGDIR", "SINGULARITY_CACHEDIR")
"""Variables that keep temporary files of the packing programs out of the user's home and of /tmp."""

_EPOCH: Final = "1700000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedImage:
    """An image in one format: its path, and the digest of the file (of the image, if it is a folder)."""

    path: Path
    digest: str


def image_tag(image: Image) -> str:
    """Return the tag of an image in Docker and Podman."""
    name = re.sub(r"[^a-z0-9]+", "-", image.name.lower()).strip("-") or "image"
    return f"tare/{name}:{image.digest[:16]}"


def ensure_file(image: Image, wanted: str, program: str = "", progress: Progress = silent) -> ConvertedImage:
    """Return an image as a file of the cache in one of `FILES`; create the file first if it is missing.

    `program` is Apptainer's, for a SIF. Raises `CommandFailed` with the end of the packing program's output.
    """
    place = image.cache / wanted / image.digest
    mark_used(place)

    def make(work: Path) -> None:
        source = ensure_tar(image, progress) if wanted in ("docker-archive", "oci") else image.rootfs
        how_long = ""
        if wanted == "sif":
            source = ensure_file(image, "docker-archive", progress=progress).path
            how_long = " (apptainer build, about half a minute)"
        progress(f"image {image.name}: packing it as {wanted}{how_long}")
        target = work / FILES[wanted]
        _makers(program)[wanted](image, source, target)
        record = {"format": wanted, "digest": f"sha256:{archive.sha256_of(target)}", "bytes": target.stat().st_size}
        (work / _RECORD).write_text(json.dumps(record, indent=1) + "\n")

    return ensure(place, partial(_read, place, wanted), make, what=f"image {image.name} as {wanted}", progress=progress)


def convert(
    image: Image, wanted: str, out: Path | None = None, program: str = "", progress: Progress = silent
) -> ConvertedImage:
    """Return an image in one of `FORMATS`: at `out`, or in the cache, or (`podman`) in the user's own storage.

    Raises `UsageError` if `out` exists already.
    """
    if wanted not in FORMATS:
        raise UsageError(f"unknown format {wanted!r}", remedy=f"known formats: {', '.join(FORMATS)}")
    if out is not None and (out.exists() or out.is_symlink()):
        raise UsageError(f"{out} already exists", remedy="remove it, or choose another name")
    if out is not None and not out.absolute().parent.is_dir():
        raise UsageError(f"the folder {out.absolute().parent} does not exist", remedy="create it, or name another one")
    if wanted == "podman":
        return _into_podman(image, out, progress)
    if wanted in FILES:
        converted = ensure_file(image, wanted, program, progress)
        if out is None:
            return converted
        with _written(out), output_file(out) as file:
            shutil.copyfile(converted.path, f"/proc/self/fd/{file.fileno()}")
        return ConvertedImage(path=out, digest=converted.digest)
    if out is None:
        return ConvertedImage(path=image.rootfs, digest=image.digest)
    progress(f"image {image.name}: copying its files to {out}")
    with _written(out):
        _copy(image, out, for_charliecloud=wanted == "charliecloud")
    return ConvertedImage(path=out, digest=image.digest)


def formats_of(image: Image) -> tuple[str, ...]:
    """Return the formats in which the cache has an image now."""
    there = (wanted for wanted in FILES if _read(image.cache / wanted / image.digest, wanted) is not None)
    return ("directory", *there)


def sif_argv(program: str, source: Path, target: Path) -> tuple[str, ...]:
    """Return the command of Apptainer (or Singularity) that makes a SIF from a Docker archive."""
    return (program, "build", str(target), f"docker-archive:{source}")


def squashfs_argv(program: str, rootfs: Path, target: Path) -> tuple[str, ...]:
    """Return the command that packs a root file system; for an ordinary user all files become root's."""
    owner = () if os.geteuid() == 0 else ("-all-root",)
    return (program, str(rootfs), str(target), "-noappend", "-no-progress", "-quiet", *owner)


def podman_argv(program: str, source: Path, storage: Path | None, state: Path) -> tuple[str, ...]:
    """Return the command that loads a Docker archive into Podman's storage: the user's own, or a folder.

    With a folder, Podman's runtime files are in `state`, whose name must be short: Podman allows 50 characters.
    """
    folders = (("--root", storage), ("--runroot", state / "run"), ("--tmpdir", state / "tmp"))
    storage_options = (
        [] if storage is None else [token for option, folder in folders for token in (option, str(folder))]
    )
    return (program, *storage_options, "load", "--quiet", "--input", str(source))


def _read(place: Path, wanted: str) -> ConvertedImage | None:
    try:
        record = json.loads((place / _RECORD).read_text())
        file = place / FILES[wanted]
        whole = file.stat().st_size == record["bytes"]
        return ConvertedImage(path=file, digest=str(record["digest"])) if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _makers(program: str) -> Mapping[str, Callable[[Image, Path, Path], None]]:
    return {
        "docker-archive": _docker_archive,
        "oci": _oci,
        "squashfs": _squashfs,
        "sif": partial(_sif, program),
    }


def _configuration(image: Image, layer: Path) -> dict[str, object]:
    labels = {"org.opencontainers.image.title": image.name, "tare.digest": image.digest}
    return archive.config(archive.sha256_of(layer), image.variables, labels)


def _docker_archive(image: Image, layer: Path, target: Path) -> None:
    archive.write_docker_archive(target, layer, _configuration(image, layer), image_tag(image))


def _oci(image: Image, layer: Path, target: Path) -> None:
    archive.write_oci_layout(target, layer, _configuration(image, layer), image.digest[:16])


def _squashfs(image: Image, _layer: Path, target: Path) -> None:
    program = process.need("mksquashfs", package="squashfs-tools")
    environment = {**caller_variables.environment(), "SOURCE_DATE_EPOCH": _EPOCH}
    what = f"packing {image.name} as squashfs"
    process.run(squashfs_argv(program, image.rootfs, target), timeout_s=_LIMIT_S, env=environment, what=what)


def _sif(program: str, image: Image, source: Path, target: Path) -> None:
    scratch = target.parent / "scratch"
    scratch.mkdir()
    process.run(
        sif_argv(program, source, target),
        timeout_s=_LIMIT_S,
        env={**caller_variables.environment(), **dict.fromkeys(_FOLDERS, str(scratch))},
        what=f"packing {image.name} into a SIF",
    )
    remove_tree(scratch)


def _copy(image: Image, target: Path, *, for_charliecloud: bool) -> None:
    """Copy an image's files, without privileges on this machine.

    `ch-run` reads the image's variables from ch/environment. The copy is where a user wants it, so others may reach it.
    Setuid bits, device nodes and file capabilities (an extended attribute) are left out.
    """
    argv = ("cp", "--archive", "--no-preserve=xattr", "--reflink=auto", "--one-file-system", "--no-target-directory")
    with folder_at(target.parent) as folder, private_folder(folder, f".{target.name}.tare-{os.getpid()}") as private:
        copied = private / "rootfs"
        try:
            process.run((*argv, str(image.rootfs), str(copied)), timeout_s=_LIMIT_S, what=f"copying {image.name}")
            strip_privileges(copied)
            if for_charliecloud:
                write_file(copied, "ch/environment", "".join(f"{variable}\n" for variable in image.variables))
            os.rename(copied, target.name, dst_dir_fd=folder)
        finally:
            remove_tree(copied)


def _into_podman(image: Image, storage: Path | None, progress: Progress) -> ConvertedImage:
    program = process.need("podman", package="podman")
    if storage is not None:
        check_only_root_changes(storage.absolute().parent, "storage")
    source = ensure_file(image, "docker-archive", progress=progress).path
    where = "Podman's storage" if storage is None else str(storage)
    progress(f"image {image.name}: loading it into {where} as {image_tag(image)}")
    with tempfile.TemporaryDirectory(prefix="tare-", dir="/tmp") as state:
        argv = podman_argv(program, source, storage, Path(state))
        process.run(argv, timeout_s=_LIMIT_S, what=f"loading {image.name} into {where}")
    if storage is not None and (storage / "libpod").is_dir():
        remove_tree(storage / "libpod")  # Podman's record of its state a moment ago, which it would insist on
    return ConvertedImage(path=storage or Path(image_tag(image)), digest=image.digest)


@contextmanager
def _written(out: Path) -> Iterator[None]:
    """Raise `UsageError` if a file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}", remedy="choose another place") from error
