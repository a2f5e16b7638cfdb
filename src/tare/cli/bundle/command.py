"""Write a bundle: a zip file that Python runs, with the wheels, the images and the program that installs them.

__main__.py                 starts the installer, if this Python can
install.py                  the installer
manifest.json               versions of tare and of Python, and the machine
requirements-3.11.txt       what pip installs for a version of Python, with hashes
wheels/NAME.whl             tare's own wheel has the C sources
images/DIGEST/image.json    the image's record, and its root file system next to it
images/DIGEST/rootfs.tar
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import tare
from tare.cli.bundle import wheels
from tare.cli.bundle.archive import write_zip
from tare.cli.bundle.install import MOST_BYTES
from tare.cli.output import say, writing
from tare.errors import UsageError
from tare.images import find_recipe
from tare.images.build import RECORD, ensure_image
from tare.images.inside.archive import sha256_of
from tare.system.safe_files import output_file

INSTALLER: Final = Path(__file__).with_name("install.py")
SHEBANG: Final = b"#!/usr/bin/env python3\n"
MAIN: Final = b"""\
import sys
if sys.version_info < (3, 9):
    sys.exit("tare needs Python 3.11 or newer; this is %d.%d: start this file with another" % sys.version_info[:2])
from install import begin
begin()
"""
"""What even an old Python can read."""
OLDEST_PYTHON: Final = 11
_VERSION: Final = re.compile(r"3\.(\d{1,2})")


def write_bundle(target: Path, images: Sequence[str], pythons: Sequence[str]) -> None:
    """Write a bundle with images of the cache, which are built if missing, for versions of Python; print its digest."""
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} already exists", remedy="remove it, or choose another name")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"the folder {target.absolute().parent} does not exist", remedy="create it, or name another")
    versions = sorted(set(map(checked, pythons)) or {f"3.{sys.version_info.minor}"})
    files = images_of(images)
    with tempfile.TemporaryDirectory(prefix="tare-bundle-") as scratch:
        files |= wheels_of(versions, Path(scratch))
        with writing("the bundle", target, "file"), output_file(target) as file:
            os.fchmod(file.fileno(), 0o755)
            part = Path(f"/proc/self/fd/{file.fileno()}")  # the name may be another file meanwhile
            write_archive(part, files, versions)
            size, digest = part.stat().st_size, sha256_of(part)
            if size > MOST_BYTES:
                raise UsageError(
                    f"the bundle would have {size / 1e9:.1f} GB; Python starts archives up to 4 GB",
                    remedy="write one bundle for each image",
                )
    print(f"{target}  sha256:{digest}  {size / 1e6:.0f} MB")
    print(f"copy it to the other machine and run there: python3 {target.name} FOLDER")


def checked(version: str) -> str:
    """Return a version of Python for the head; raise `UsageError` if tare does not run with it."""
    match = _VERSION.fullmatch(version)
    if match is None or int(match[1]) < OLDEST_PYTHON:
        raise UsageError(
            f"--python: tare's head does not run with Python {version!r}",
            remedy=f"write it as --python 3.13; 3.{OLDEST_PYTHON} is the oldest",
        )
    return version


def images_of(names: Sequence[str]) -> dict[str, bytes | Path]:
    """Return the files of recipes' images, by their names in a bundle."""
    files: dict[str, bytes | Path] = {}
    for name in dict.fromkeys(names):
        if "/" in name:
            raise UsageError(
                f"--image: {name} is a path; a bundle holds images of tare's recipes",
                remedy="copy your own image to the other machine and name its path in the study",
            )
        recipe = find_recipe(name)
        if recipe.brought is not None:
            raise UsageError(
                f"--image: {name} has the MPI at {recipe.brought}, which a bundle does not hold",
                remedy="use debian-openmpi or debian-mpich",
            )
        image = ensure_image(recipe, progress=say)
        files[f"images/{image.digest}/{RECORD}"] = (image.rootfs.parent / RECORD).read_bytes()
        files[f"images/{image.digest}/rootfs.tar"] = image.tar
    return files


def wheels_of(versions: Sequence[str], scratch: Path, built: Path | None = None) -> dict[str, bytes | Path]:
    """Return the wheels and pip's requirements for versions of Python, by their names in a bundle.

    tare's own is the one that was built, or else made of the running package.
    """
    files: dict[str, bytes | Path] = {}
    folder = scratch / "wheels"
    folder.mkdir()
    for version in versions:
        say(f"downloading the Python packages for Python {version}")
        wheels.download(version, folder)
    wheel = built or wheels.own_wheel(folder)
    for version in versions:
        lines = f"{wheels.PROJECT}=={tare.__version__} --hash=sha256:{sha256_of(wheel)}\n{wheels.requirements(version)}"
        files[f"requirements-{version}.txt"] = lines.encode()
    return files | {f"wheels/{path.name}": path for path in (*folder.glob("*.whl"), wheel)}


def write_archive(
    target: Path, files: Mapping[str, bytes | Path], versions: Sequence[str], *, runs: bool = False
) -> None:
    """Write the zip: the same files give the same bytes. One that `runs` is tare itself, as a release has it."""
    manifest = {
        "tare": tare.__version__,
        "pythons": list(versions),
        "machine": platform.machine(),
        "runs": runs,
    }
    whole: dict[str, bytes | Path] = {
        **files,
        "__main__.py": MAIN,
        "install.py": INSTALLER.read_bytes(),
        "manifest.json": (json.dumps(manifest, indent=1) + "\n").encode(),
    }
    write_zip(target, whole, head=SHEBANG, first="__main__.py")
