"""Build images from recipes, once: later calls find them in the cache.

    <cache>/roots/<digest>/   base.tar (Debian with the recipe's packages), builder/ (the same with compilers) or
                              fits.json (package versions with which this machine's own programs fit it)
    <cache>/images/<digest>/  rootfs/ (what bare, apptainer, charliecloud enter), rootfs.tar (what Docker imports),
                              image.json (the record; without it the folder is no image)

The Debian part is kept separately because the kernels change more often: rebuilding them alone takes seconds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tare.errors import CommandFailed, CommandTimeout, InfrastructureError
from tare.images import host_build
from tare.images import recipe as recipes
from tare.images.cache import PRIVATE, Progress, ensure, locked, make_private, silent
from tare.images.inside.archive import sha256_of
from tare.images.inside.budget import MOST_BYTES, UnpackBudget, limited
from tare.images.kernels import ensure_kernels
from tare.images.recipe import Recipe
from tare.images.usage import mark_used
from tare.system import caller_variables, process
from tare.system.paths import cache_folder
from tare.system.user_namespace import lacks_ids

RECORD: Final = "image.json"
FITS: Final = "fits.json"
_NEEDED_BYTES: Final = 3_000_000_000
_DEBIAN_LIMIT_S: Final = 3600.0
_STEP_LIMIT_S: Final = 3600.0
_LAST_CHANGE_S: Final = 1_700_000_000
"""Latest timestamp of a file in an image (SOURCE_DATE_EPOCH), so that the image does not depend on when it was built.
"""

VARIABLES: Final = ("PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",)
"""The environment of the images that tare builds."""

ALONE: Final = (
    "setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
)  # fmt: skip
"""Starts a command whose mounts and processes end with it, and with tare, however tare ends."""

_TOOLS: Final = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "tar": "tar", "chroot": "coreutils"}
_APT_OPTIONS: Final = re.compile(r'^(?:Acquire::https?::[^\s"]+|Acquire::Check-(?:Valid-Until|Date)) ".+";$')


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A complete image in the cache. `rootfs` belongs to root if root built it.

    `variables` are those of its environment, as `NAME=value`; `cache` is its folder in the cache. `source` is the path
    of a user's own image, whose `tar` is made when it is needed (`ensure_tar`), and `sif` its SIF.
    """

    name: str
    digest: str
    rootfs: Path
    tar: Path
    packages: Mapping[str, str]
    cache: Path
    variables: tuple[str, ...] = VARIABLES
    source: str = ""
    sif: Path | None = None

    @property
    def foreign(self) -> bool:
        """Return whether the files are a user's own folder, which must not be written to."""
        return self.rootfs.parent != self.tar.parent


def ensure_image(recipe: Recipe, cache_dir: Path | None = None, progress: Progress = silent) -> Image:
    """Return the recipe's image; build it first if it is not in the cache (about a minute).

    Raises `MissingTool` naming the package to install, and `InfrastructureError` with the end of the log if a step
    fails. A partly built image is never taken for an image.
    """
    cache = cache_dir or cache_folder()
    digest = recipe.digest
    place = cache / "images" / digest
    mark_used(place)
    make_private(place)
    if read_image(place) is None:
        for program, package in _TOOLS.items():
            process.need(program, package=package)
        _need_space(cache)

    def make(work: Path) -> None:
        debian = _ensure_debian(recipe, cache, progress)
        if not recipe.mpi:
            (work / "kernels" / recipes.PREFIX.lstrip("/")).mkdir(parents=True)
        elif (debian / "builder").is_dir():
            progress(f"image {recipe.name}: compiling kernels and mini-applications against its own MPI")
            _compile(recipe, debian / "builder", work)
        else:
            host_build.copy_programs(ensure_kernels(recipe.mpi, cache, progress), work / "kernels")
        progress(f"image {recipe.name}: assembling it in {place}")
        _assemble(recipe, debian / "base.tar", work, digest)

    what = f"image {recipe.name}"
    return ensure(place, partial(read_image, place), make, what=what, progress=progress, mode=PRIVATE)


def cannot_build(recipe: Recipe, cache_dir: Path | None = None) -> str | None:
    """Return why this user cannot get a recipe's image here, with what helps, or None."""
    if read_image((cache_dir or cache_folder()) / "images" / recipe.digest) is not None:
        return None
    missing = next((program for program in _TOOLS if process.find(program) is None), None)
    why = f"{missing} is not installed" if missing else None if _is_root() else lacks_ids()
    if why is None:
        return None
    return (
        f"the image {recipe.name} is not in the cache and cannot be built: {why}; or take it from a bundle "
        "(tare bundle), or run apptainer build on the recipe of `tare image recipe` and name the SIF as the image"
    )


def list_images(cache_dir: Path | None = None) -> tuple[Image, ...]:
    """Return the images in the cache, by name and digest."""
    folder = (cache_dir or cache_folder()) / "images"
    images = (read_image(place) for place in folder.glob("[0-9a-f]*"))
    return tuple(sorted((image for image in images if image is not None), key=lambda i: (i.name, i.digest)))


def debian_sources(suite: str) -> tuple[str, ...]:
    """Return the lines of apt's sources from which this machine gets Debian's `suite`.

    Empty if it has none (another distribution, or indexes that were never fetched): mmdebstrap then uses its own.
    Third-party sources are left out.
    """
    if process.find("apt-get") is None:
        return ()
    fields = ("REPO_URI", "RELEASE", "COMPONENT", "ORIGIN")
    form = "|".join(f"$({field})" for field in fields)
    targets = process.run(("apt-get", "indextargets", "--format", form, "Created-By: Packages"), check=False)
    lines = []
    for line in targets.stdout.splitlines():
        address, _, rest = line.partition("|")
        release, _, rest = rest.partition("|")
        component, _, origin = rest.partition("|")
        ours = release in (suite, f"{suite}-updates", f"{suite}-security")
        if targets.status == 0 and ours and component == "main" and origin == "Debian":
            lines.append(f"deb {address} {release} {component}")
    return tuple(dict.fromkeys(lines))


def read_image(place: Path) -> Image | None:
    """Return the image at `place`, or None if there is none or it is incomplete."""
    try:
        record: dict[str, Any] = json.loads((place / RECORD).read_text())
    except (OSError, ValueError):
        return None
    is_users = "source" in record
    image = Image(
        name=str(record.get("name", "")),
        digest=place.name,
        rootfs=Path(record.get("rootfs", place / "rootfs")),
        tar=place / "rootfs.tar",
        packages=record.get("packages", {}),
        cache=place.parents[1],
        variables=tuple(record.get("variables", VARIABLES)),
        source=str(record.get("source", "")),
        sif=Path(record["sif"]) if "sif" in record else None,
    )
    whole = record.get("digest") == place.name and image.rootfs.is_dir() and (is_users or image.tar.is_file())
    return image if whole else None


def ensure_tar(image: Image, progress: Progress = silent) -> Path:
    """Return the packed root file system of an image; pack a user's own image first if that was not needed before."""
    if image.tar.is_file():
        return image.tar
    with locked(image.tar, what=f"image {image.name}", progress=progress):
        if not image.tar.is_file():
            progress(f"image {image.name}: packing its files")
            part = image.tar.with_suffix(".part")
            try:
                # a user's own folder may have files of any size
                most_bytes = UnpackBudget(image.rootfs, part.parent, MOST_BYTES).most_bytes
                _pack(image.name, image.rootfs, part, limited((), most_bytes))
                part.rename(image.tar)
            finally:
                part.unlink(missing_ok=True)
    return image.tar


def _need_space(cache: Path) -> None:
    free = shutil.disk_usage(next(place for place in (cache, *cache.absolute().parents) if place.exists())).free
    if free < _NEEDED_BYTES:
        raise InfrastructureError(
            f"building an image needs {_NEEDED_BYTES / 1e9:.0f} GB in {cache}, of which {free / 1e9:.1f} GB are free",
            remedy="free some disk space, or set XDG_CACHE_HOME to a folder on another disk",
        )


def _ensure_debian(recipe: Recipe, cache: Path, progress: Progress) -> Path:
    """Return the folder with the Debian part: base.tar and builder/."""
    place = cache / "roots" / recipe.debian_digest
    mark_used(place)
    make_private(place)
    same = host_build.find_versions(recipe)

    def make(work: Path) -> None:
        progress(f"image {recipe.name}: downloading Debian's packages (mmdebstrap, about a minute)")
        _debootstrap(recipe, work, same)

    what = f"image {recipe.name}"
    return ensure(place, partial(_usable, place, same), make, what=what, progress=progress, mode=PRIVATE)


def _usable(place: Path, same: Mapping[str, str]) -> Path | None:
    """Return a Debian part with compilers, or one that this machine's own programs still fit; None if it is neither.

    It was renamed as a whole, so it needs no record.
    """
    try:
        fits = (place / "builder").is_dir() or (bool(same) and json.loads((place / FITS).read_text()) == dict(same))
    except (OSError, ValueError):
        return None
    return place if fits else None


def _debootstrap(recipe: Recipe, work: Path, same: Mapping[str, str]) -> None:
    # An ordinary user's mmdebstrap runs as a subordinate user, who cannot enter a private home.
    with tempfile.TemporaryDirectory(prefix="tare-image-", dir=work if _is_root() else None) as scratch_name:
        scratch = Path(scratch_name)
        scratch.chmod(0o755 if _is_root() else 0o777)
        base, target = scratch / "base.tar", scratch / "builder.tar"
        argv = recipes.debian_argv(recipe, base=base, target=target)
        options = tuple(f"--aptopt={option}" for option in machine_apt_options())
        env = {
            **caller_variables.environment(),
            "SOURCE_DATE_EPOCH": str(_LAST_CHANGE_S),
            "TARE_SCRIPTS": str(recipes.SCRIPTS),
            "TARE_SAME": "\n".join(f"{package} {version}" for package, version in same.items()),
            "TMPDIR": str(scratch),
            "LC_ALL": "C.UTF-8",
        }
        _step(
            (*(ALONE if _is_root() else ()), *argv[:1], *options, *argv[1:], *debian_sources(recipe.suite)),
            recipe.name,
            "installing Debian's packages with mmdebstrap",
            timeout_s=_DEBIAN_LIMIT_S,
            env=env,
            remedy="check that `apt-get update` works on this machine, and the names of packages that you added "
            "(`apt-cache search WORD`), then run the same command again",
        )
        if base.with_name("base.tar.fits").exists():
            (work / FITS).write_text(json.dumps(dict(same)))
        else:
            (work / "builder").mkdir()
            _unpack(recipe, target, work / "builder")
        target.unlink()
        shutil.move(base, work / "base.tar")


def _compile(recipe: Recipe, builder: Path, work: Path) -> None:
    result = work / "kernels"
    result.mkdir()
    cores = str(max(1, len(os.sched_getaffinity(0))))
    _step(
        recipes.compile_argv(recipe, root=builder, result=result, as_root=_is_root()),
        recipe.name,
        "compiling tare's programs inside the image",
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": "/",
            "CMAKE_BUILD_PARALLEL_LEVEL": cores,
        },
        remedy="correct what the message names (kernels/, miniapps/, the right to use unshare), then run it again",
    )


def _assemble(recipe: Recipe, base: Path, work: Path, digest: str) -> None:
    """Create rootfs/, rootfs.tar and the record in `work` from the base and the compiled kernels."""
    rootfs = work / "rootfs"
    rootfs.mkdir(mode=0o755)
    _unpack(recipe, base, rootfs)
    for name in recipes.MOUNT_POINTS:
        (rootfs / name).mkdir(exist_ok=True)
    for name, text in recipes.MOUNT_FILES.items():
        path = rootfs / name
        path.unlink(missing_ok=True)  # it may be a link
        path.write_text(text)
        path.chmod(0o644)
    inside = rootfs / recipes.PREFIX.lstrip("/")
    inside.parent.mkdir(exist_ok=True)
    (work / "kernels" / recipes.PREFIX.lstrip("/")).rename(inside)
    shutil.rmtree(work / "kernels")
    if recipe.brought is not None:
        shutil.copytree(recipe.brought, rootfs / str(recipe.brought).lstrip("/"), symlinks=True)
    _pack(recipe.name, rootfs, work / "rootfs.tar")
    record = {
        "name": recipe.name,
        "digest": digest,
        "suite": recipe.suite,
        "debian_digest": recipe.debian_digest,
        "tar_digest": f"sha256:{sha256_of(work / 'rootfs.tar')}",
        "kernels_digest": recipe.sources_digest,
        "packages": _package_versions(rootfs / "var/lib/dpkg/status"),
    }
    (work / RECORD).write_text(json.dumps(record, indent=1) + "\n")


def _pack(name: str, rootfs: Path, tar: Path, bounds: tuple[str, ...] = ()) -> None:
    owner = () if _is_root() else ("--owner=0", "--group=0")
    what = ("--one-file-system", "--numeric-owner", "--sort=name", *owner, ".")
    _step(
        (*bounds, "tar", "--create", f"--file={tar}", f"--directory={rootfs}", *what),
        name,
        "packing the root file system",
        remedy="free some disk space in the cache folder, then run the same command again",
    )


def _unpack(recipe: Recipe, tar: Path, folder: Path) -> None:
    # An ordinary user can create neither device nodes nor files of other users; in a user namespace they are root's.
    rights = ("--same-owner", "--numeric-owner") if _is_root() else ("--no-same-owner", "--exclude=./dev/*")
    _step(
        ("tar", "--extract", f"--file={tar}", f"--directory={folder}", "--preserve-permissions", *rights),
        recipe.name,
        "unpacking the root file system",
        remedy="free some disk space in the cache folder, then run the same command again",
    )


def _step(
    argv: tuple[str, ...],
    name: str,
    what: str,
    *,
    remedy: str,
    timeout_s: float = _STEP_LIMIT_S,
    env: Mapping[str, str] | None = None,
) -> None:
    try:
        process.run(argv, timeout_s=timeout_s, env=env, what=what)
    except CommandTimeout as error:
        raise InfrastructureError(f"image {name}: {error.message}", remedy=remedy) from error
    except CommandFailed as error:
        tail = "\n  ".join(error.stderr_tail.splitlines()[-12:])
        raise InfrastructureError(
            f"image {name}: {what} failed (status {error.status}):\n  {tail}", remedy=remedy
        ) from error


def machine_apt_options() -> tuple[str, ...]:
    """Return this machine's apt settings for reaching the mirrors (proxies, certificates, dates)."""
    if process.find("apt-config") is None:
        return ()
    dump = process.run(("apt-config", "dump"), check=False)
    return tuple(line.rstrip(";") for line in dump.stdout.splitlines() if _APT_OPTIONS.match(line))


def _package_versions(status: Path) -> dict[str, str]:
    """Return name -> version of the packages that are installed according to dpkg's status file."""
    versions = {}
    for paragraph in status.read_text(errors="replace").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"[A-Z][\w-]*: ", line))
        if fields.get("Status", "").endswith(" installed"):
            versions[fields["Package"]] = fields.get("Version", "")
    return dict(sorted(versions.items()))


def _is_root() -> bool:
    return os.geteuid() == 0
