"""Groups of processes with cores of their own, on cgroup v1 and v2.

All groups lie below one of ours (`/tare`), so that what a killed run left is found there. In v1 a group is a folder
in every hierarchy; in v2 it is one folder.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError

MARK: Final = "tare"
MOUNTINFO: Final = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """One mounted cgroup file system. `controllers` is empty for v2 and for named v1 hierarchies."""

    mountpoint: Path
    version: int
    controllers: tuple[str, ...] = ()
    options: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cgroup, by its path below the mark, over all hierarchies that we may write to."""

    path: str
    hierarchies: tuple[Hierarchy, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the group's folder in every hierarchy."""
        return tuple(h.mountpoint / MARK / self.path for h in self.hierarchies)

    @property
    def version(self) -> int:
        """Return 2 on a unified hierarchy, 1 on the older ones, 0 where there is no cgroup for us."""
        return self.hierarchies[0].version if self.hierarchies else 0

    def below(self, name: str) -> Group:
        """Return a group inside this one."""
        return Group(path=f"{self.path}/{name}", hierarchies=self.hierarchies)

    def create(self, cpus: Sequence[int] = ()) -> Group:
        """Make the folders, with the cores `cpus` (empty: those of the parent)."""
        for hierarchy in self.hierarchies:
            _make(hierarchy, self.path, cpus)
        return self

    @property
    def leaf(self) -> Group:
        """Return where processes of the group itself go: in v2 a group that hands controllers on may hold none."""
        return self.below("host") if self.version == 2 else self

    def create_leaf(self) -> Group:
        """Make the leaf, without handing controllers on to it: a process may still have to pass through the group."""
        leaf = self.leaf
        if leaf is not self:
            for folder in leaf.folders:
                folder.mkdir(exist_ok=True)
        return leaf

    def pids(self) -> set[int]:
        """Return the processes in this group and below it."""
        found: set[int] = set()
        for folder, _, _ in os.walk(self._counted):
            found.update(_read_pids(Path(folder) / "cgroup.procs"))
        return found

    @property
    def _counted(self) -> Path:
        """Return the folder of one hierarchy: every process of ours is in the same group of all of them."""
        chosen = next((h for h in self.hierarchies if "pids" in h.controllers), None)
        first = chosen or next(iter(self.hierarchies), None)
        return first.mountpoint / MARK / self.path if first else Path("/nonexistent")

    def kill(self, *, spare: Iterable[int] = (), deadline_s: float = 3.0) -> None:
        """Kill every process in the group, but those to spare, and wait until they are gone."""
        spared = set(spare)
        until = time.monotonic() + deadline_s
        pause = 0.001
        while left := self.pids() - spared:
            for pid in left:
                _kill(pid)
            if time.monotonic() > until:
                raise InfrastructureError(f"processes {sorted(left)} of {self.path} do not end")
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def remove(self) -> None:
        """Remove the group and all groups below it; they must be empty of processes."""
        for folder in self.folders:
            for inner, _, _ in os.walk(folder, topdown=False):  # what another run removes meanwhile is no error
                _rmdir(Path(inner))
            if "/" not in self.path:
                with suppress(OSError):  # other labs are still below our mark
                    folder.parent.rmdir()

    def usage_s(self) -> float:
        """Return the CPU time that the group has used, in seconds; 0 where no hierarchy counts it."""
        for folder in self.folders:
            nanoseconds, table = folder / "cpuacct.usage", folder / "cpu.stat"
            if nanoseconds.exists():
                return int(nanoseconds.read_text()) / 1e9
            if table.exists() and "usage_usec" in (text := table.read_text()):
                return int(text.split("usage_usec", 1)[1].split(None, 1)[0]) / 1e6
        return 0.0


def hierarchies(mountinfo: Path = MOUNTINFO) -> tuple[Hierarchy, ...]:
    """Return the hierarchies in which we can make groups: v1's controllers, or v2 where it has the controllers."""
    v1: list[Hierarchy] = []
    v2: list[Hierarchy] = []
    for line in mountinfo.read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = [*right.split(" ", 2), "", ""][:3]
        mountpoint = Path(left.split()[4])
        if kind == "cgroup":
            names = tuple(n for n in options.split(",") if n not in {"rw", "ro", "xattr"} and "=" not in n)
            v1.append(Hierarchy(mountpoint=mountpoint, version=1, controllers=names, options=_v1_options(options)))
        elif kind == "cgroup2":
            v2.append(Hierarchy(mountpoint=mountpoint, version=2))
    chosen = v1 or v2
    return tuple(h for h in chosen if os.access(h.mountpoint, os.W_OK) and not _read_only(h.mountpoint))


def group(path: str) -> Group:
    """Return the group at a path below our mark; nothing is made."""
    return Group(path=path, hierarchies=hierarchies())


def file_systems(groups: Sequence[Hierarchy]) -> list[tuple[str, str, str]]:
    """Return what to mount below /sys/fs/cgroup in a new cgroup namespace: type, options, target."""
    return [
        ("cgroup2" if h.version == 2 else "cgroup", "" if h.version == 2 else h.options, str(h.mountpoint))
        for h in groups
    ]


def _v1_options(options: str) -> str:
    named = [o for o in options.split(",") if o.startswith("name=")]
    plain = [o for o in options.split(",") if o not in {"rw", "ro", "xattr"} and "=" not in o]
    return ",".join((["none", *named] if named and not plain else []) + ([] if named and not plain else plain))


def _read_only(mountpoint: Path) -> bool:
    return bool(os.statvfs(mountpoint).f_flag & os.ST_RDONLY)


def _make(hierarchy: Hierarchy, path: str, cpus: Sequence[int]) -> None:
    folder = hierarchy.mountpoint
    parts = (MARK, *path.split("/"))
    for depth, part in enumerate(parts):
        parent, folder = folder, folder / part
        try:
            if hierarchy.version == 2:
                _hand_on_controllers(parent)
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InfrastructureError(
                f"cannot make the cgroup {folder}: {error.strerror}", remedy="run as root, or as a user in the lab"
            ) from error
        if "cpuset" in hierarchy.controllers:
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not (folder / name).read_text().strip():
                    (folder / name).write_text((parent / name).read_text())
        if cpus and depth == len(parts) - 1 and (folder / "cpuset.cpus").exists():
            (folder / "cpuset.cpus").write_text(",".join(map(str, cpus)))


def _hand_on_controllers(folder: Path) -> None:
    available = (folder / "cgroup.controllers").read_text().split()
    for name in ("cpuset", "cpu", "memory", "pids", "io"):
        if name in available:
            (folder / "cgroup.subtree_control").write_text(f"+{name}")


def _read_pids(procs: Path) -> set[int]:
    try:
        return {int(line) for line in procs.read_text().split() if line != "0"}
    except OSError:  # the group went away while we looked
        return set()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _rmdir(folder: Path) -> None:
    for _ in range(500):
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:  # the kernel still counts a process that has just ended
            time.sleep(0.002)
