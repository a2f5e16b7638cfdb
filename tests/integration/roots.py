"""Root file systems of other Debian releases, which stand for other distributions: made once, kept in the cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from tare.images.build import debian_sources, machine_apt_options
from tare.images.cache import locked, silent, write_atomically
from tare.system import process
from tare.system.paths import cache_folder

HERE = "bookworm"
USER = 1000
SCRIPT = """
set -eu
root=$1 home=$2
shift 2
ip link set lo up
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$home" "$root/home"
mount -t tmpfs tmpfs "$root/mnt"
cd "$root"
pivot_root . mnt
umount --lazy /mnt
cd /home
exec setpriv --reuid=1000 --regid=1000 --clear-groups --no-new-privs env -i HOME=/home PATH=/usr/bin:/bin:/usr/sbin "$@"
"""


def root_of(suite: str, *packages: str) -> Path:
    """Return the root file system of a Debian suite with packages; make it first if it is not in the cache."""
    stamp = hashlib.sha256(" ".join((suite, *sorted(packages))).encode()).hexdigest()[:16]
    place = cache_folder() / "test-roots" / f"{suite}-{stamp}"
    with locked(place, what=f"root of {suite}", progress=silent):
        if not place.is_dir():
            with write_atomically(place) as work:
                make_root(suite, packages, work / "root")
    return place / "root"


def make_root(suite: str, packages: tuple[str, ...], target: Path) -> None:
    """Run mmdebstrap with this machine's mirror and its settings of apt."""
    sources = [line.replace(HERE, suite) for line in debian_sources(HERE) if line.split()[2] == HERE]
    options = [f"--aptopt={option}" for option in machine_apt_options()]
    argv = (
        *("mmdebstrap", "--variant=minbase", "--format=directory", f"--include={','.join(packages)}"),
        *("--aptopt=APT::Install-Recommends false", *options, suite, str(target), *sources),
    )
    process.run(argv, timeout_s=None, what=f"making the root of {suite}")


def entering(root: Path, home: Path) -> tuple[str, ...]:
    """Return the command before one that runs in a root file system, as `in_root` does."""
    os.chown(home, USER, USER)
    apart = ("unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
    return (*apart, "sh", "-c", SCRIPT, "sh", str(root), str(home))


def in_root(root: Path, home: Path, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a root file system as an ordinary user whose home is a folder here, without a network.

    It is the root directory, not a chroot: in a chroot no user namespace can be made.
    """
    return subprocess.run(
        (*entering(root, home), *map(str, argv)),
        capture_output=True,
        text=True,
        check=False,
    )
