"""`apptainer-sif-setuid`, `-squashfuse`, `-extracted`: how an ordinary user's Apptainer can start from a SIF.

The container is that of `apptainer`. Which way Apptainer takes by itself depends on how it was installed; these members
name it, so that each is measured as what it is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from tare.runtimes.apptainer import find_program
from tare.runtimes.apptainer_sif import LOOP, ApptainerSif
from tare.system.packages import install
from tare.system.process import find, run
from tare.system.user_namespace import is_real_root

FUSE: Final = Path("/dev/fuse")
SQUASHFUSE: Final = ("squashfuse_ll", "squashfuse")
STAY: Final = (
    'case $3 in *" --daemonize "*) set -- "$1" "$2" "${3%% --daemonize *} ${3#* --daemonize }" ;; esac; exec "$@"'
)
"""Removes an option from the command line of an MPI's daemon, by which it would leave its parent. When a container's
first process ends, Apptainer unmounts or removes the files of the image, and ranks would end with a bus error."""
LIBRARIES: Final = "LIBEXECDIR="


class OfAnOrdinaryUser(ApptainerSif):
    """Start as an ordinary user, who can give no container the rights that an sshd needs."""

    needs_root = False
    runs_sshd = False


class ApptainerSifSetuid(OfAnOrdinaryUser):
    """Mount the SIF by the kernel, through Apptainer's setuid program; no user namespace."""

    name = "apptainer-sif-setuid"

    @property
    def privileges(self) -> tuple[str, ...]:
        return ("--no-privs",)

    def setuid(self) -> str:
        return "starter-suid"

    def probe(self) -> str | None:
        reason = self.probe_pack()
        return reason or "starter-suid works for ordinary users on a machine, not in the lab: use apptainer-sif"

    def probe_machine(self) -> str | None:
        if reason := self.probe_pack():
            return reason
        if os.geteuid() == 0:
            return "root needs no starter-suid: use apptainer-sif"
        if not is_setuid(starter(find_program() or "")):
            return "Apptainer was installed without starter-suid: have an administrator install apptainer-suid"
        if not LOOP.exists():
            return f"a SIF is mounted through a loop device, but {LOOP} does not exist: modprobe loop"
        return None


class ApptainerSifSquashfuse(OfAnOrdinaryUser):
    """Mount the SIF by squashfuse, in a user namespace."""

    name = "apptainer-sif-squashfuse"

    @property
    def privileges(self) -> tuple[str, ...]:
        return ("--no-privs", "--userns")

    @property
    def stays(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", STAY, "tare-stay")

    def setuid(self) -> str:
        return "none"

    def probe(self) -> str | None:
        if reason := self.probe_pack():
            return reason
        if all(find(program) is None for program in SQUASHFUSE):
            return f"squashfuse is not installed: {install('squashfuse')}"
        if not os.access(FUSE, os.R_OK | os.W_OK):
            return f"squashfuse needs {FUSE}, which this user cannot open: have an administrator run chmod 666 {FUSE}"
        return None

    def probe_machine(self) -> str | None:
        return self.probe()


class ApptainerSifExtracted(OfAnOrdinaryUser):
    """Extract the SIF to a temporary folder at each start."""

    name = "apptainer-sif-extracted"
    start_s = 4.0

    @property
    def privileges(self) -> tuple[str, ...]:
        return ("--no-privs", "--userns", "--unsquash")

    @property
    def stays(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", STAY, "tare-stay")

    def probe(self) -> str | None:
        if reason := self.probe_pack():
            return reason
        if is_real_root():
            return "root mounts a SIF and does not extract it: use apptainer-sif"
        if find("unsquashfs") is None:
            return f"unsquashfs is not installed: {install('squashfs-tools')}"
        return None

    def probe_machine(self) -> str | None:
        return self.probe()


def starter(program: str) -> Path:
    """Return where an Apptainer's setuid program is, if it has one."""
    lines = run((program, "buildcfg"), check=False, timeout_s=20).stdout.splitlines()
    folder = next((line.removeprefix(LIBRARIES) for line in lines if line.startswith(LIBRARIES)), "/usr/libexec")
    return Path(folder) / "apptainer" / "bin" / "starter-suid"


def is_setuid(file: Path) -> bool:
    """Return whether a file is a setuid program of root's."""
    try:
        status = file.stat()
    except OSError:
        return False
    return status.st_uid == 0 and bool(status.st_mode & stat.S_ISUID)
