"""Run tare as an ordinary user of this machine, from root: for studies that ask what such a user may do.

The user is in passwd, subuid and subgid only in a mount namespace of its own, where /dev/fuse and /dev/net/tun are open
to all, as on other machines. Its folder, removed at the end, has copies of the kernels and the image of root's cache.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file
from tare.images.kernels import ensure_kernels
from tare.runtimes.apptainer import find_program
from tare.system.process import run

UID: Final = 20177
REPOSITORY: Final = Path(__file__).resolve().parents[1]
PYTHON: Final = Path(sys.executable).resolve()
PURE: Final = Path(sysconfig.get_path("purelib"))
PACKAGES: Final = PURE.relative_to(REPOSITORY) if PURE.is_relative_to(REPOSITORY) else PURE
BECOME: Final = """
set -e
folder=$0 number=$1 repository=$2; shift 2
cd "$folder/etc"
for name in passwd group subuid subgid; do cp /etc/$name . 2> /dev/null || : > $name; done
echo "tester:x:$number:$number::$folder/home:/bin/sh" >> passwd; echo "tester:x:$number:" >> group
for name in subuid subgid; do echo "tester:1800000000:65536" >> $name; done
for name in passwd group subuid subgid; do [ -e /etc/$name ] || : > /etc/$name; mount --bind $name /etc/$name; done
for device in fuse net/tun; do
    rm -f device-${device##*/}; cp -a /dev/$device device-${device##*/}; chmod 666 device-${device##*/}
    mount --bind device-${device##*/} /dev/$device
done
# crun refuses hybrid cgroups
if [ -n "$(cat /sys/fs/cgroup/unified/cgroup.controllers 2> /dev/null)" ]; then umount /sys/fs/cgroup/unified; fi
mount --make-rshared /
mount --bind "$repository" "$folder/repository"
cd "$folder"; shift
exec setpriv --reuid $number --regid $number --clear-groups "$@"
"""


@dataclass(frozen=True, kw_only=True)
class User:
    """An ordinary user with a folder of theirs, in which are the kernels and the image."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return what the user's commands have for variables besides root's own."""
        repository = self.folder / "repository"
        return {
            "USER": "tester",
            "HOME": str(self.folder / "home"),
            "TARE_CACHE": str(self.folder / "cache"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": ":".join(str(repository / path) for path in ("src", PACKAGES)),
        }

    @property
    def becoming(self) -> tuple[str, ...]:
        """Return the argv prefix that becomes the user, in the user's folder."""
        inside = (str(self.folder), str(UID), str(REPOSITORY), "--")
        return ("unshare", "--mount", "--propagation", "private", "/bin/bash", "-c", BECOME, *inside)


@contextmanager
def ordinary_user() -> Iterator[User]:
    """Keep the folder of an ordinary user."""
    folder = Path(tempfile.mkdtemp(prefix="tu-", dir="/tmp"))  # Podman takes no long path
    try:
        prefix, image = ensure_kernels("openmpi").prefix, ensure_image(find_recipe("debian-openmpi"))
        shutil.copytree(prefix, folder / "cache" / "kernels" / prefix.name)
        sif = ensure_file(image, "sif", find_program() or "").path.parent
        shutil.copytree(sif, folder / "cache" / "sif" / sif.name)  # packing takes half a minute
        (folder / "cache" / "images").mkdir()
        # Devices and links of the image stay what they are.
        run(("cp", "-a", str(image.tar.parent), str(folder / "cache" / "images")), timeout_s=300)
        for name in ("run", "home", "repository", "etc"):
            (folder / name).mkdir()
        run(("chown", "-R", f"{UID}:{UID}", str(folder)), timeout_s=300)
        (folder / "run").chmod(0o700)
        folder.chmod(0o755)
        yield User(folder=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own(path: Path, uid: int) -> None:
    """Make a user the owner of a folder and of all that is in it."""
    for place, folders, files in os.walk(path):
        for name in (place, *(os.path.join(place, each) for each in (*folders, *files))):
            os.chown(name, uid, uid, follow_symlinks=False)
