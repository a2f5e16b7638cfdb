"""A root file system of a shell and what it loads: small enough to be converted in each test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tare.images.build import Image

MOUNT_POINTS = ("proc", "sys", "dev", "tmp", "etc", "root", "run", "var/tmp", "home", "bin", "usr/bin")


def tiny_image(cache: Path) -> Image:
    """Make the root file system, with a name in /etc and a variable that greets."""
    place = cache / "images/0123456789abcdef0123456789abcdef"
    rootfs = place / "rootfs"
    for name in MOUNT_POINTS:
        (rootfs / name).mkdir(parents=True)
    for name in ("etc/resolv.conf", "etc/hosts", "etc/passwd", "etc/group"):
        (rootfs / name).write_text("")
    (rootfs / "etc/name").write_text("tiny\n")
    programs = ("/bin/sh", "/bin/cat", "/usr/bin/sleep", "/usr/bin/env", "/bin/mount")
    for program in programs:
        shutil.copy(program, rootfs / program.lstrip("/"))
    loaded = subprocess.run(("ldd", *programs), capture_output=True, text=True, check=True).stdout
    for library in {word for word in loaded.split() if word.startswith("/") and not word.endswith(":")}:
        (rootfs / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, rootfs / library.lstrip("/"))
    subprocess.run(("tar", "-C", rootfs, "-cf", place / "rootfs.tar", "."), check=True)
    return Image(
        name="tiny",
        digest=place.name,
        rootfs=rootfs,
        tar=place / "rootfs.tar",
        packages={},
        cache=place.parents[1],
        variables=("PATH=/usr/bin:/bin", "GREETING=hello"),
    )
