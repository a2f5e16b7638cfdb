"""Find the cgroup file systems that are mounted, of v1 or v2, and where in them tare makes its groups."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from tare.system.node.kernel_files import read_text

MARK: Final = "tare"
FREEZER: Final = "freezer.state"
MOUNTINFO: Final = Path("/proc/self/mountinfo")
OWN: Final = Path("/proc/self/cgroup")
HANDED_ON: Final = ("cpuset", "cpu", "memory", "pids", "io")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """One mounted cgroup file system. `controllers` is empty for v2 and for named v1 hierarchies.

    `base` is the cgroup in which tare's is made, as a path below the mountpoint; "": the top. `below` is the name of
    tare's; "" where a container's own cgroup is mounted, in which tare makes none.
    """

    mountpoint: Path
    version: int
    controllers: tuple[str, ...] = ()
    options: str = ""
    base: str = ""
    below: str = MARK

    @property
    def can_freeze(self) -> bool:
        """Return whether it is v1's freezer, in which a frozen process does not end."""
        return "freezer" in self.controllers

    @property
    def top(self) -> Path:
        """Return the folder of tare's cgroup, which contains those of the labs."""
        return self.mountpoint / self.base / self.below


def hierarchies(mountinfo: Path = MOUNTINFO, own: Path = OWN) -> tuple[Hierarchy, ...]:
    """Return the hierarchies in which we can create groups: v1's controllers, or v2 if it has the controllers."""
    usable = (_usable(each) for each in mounted(mountinfo, own))
    return tuple(each for each in usable if each is not None)


def mounted(mountinfo: Path, own: Path) -> list[Hierarchy]:
    """Return the mounted hierarchies of v1, or of v2 if there are none, each with our own cgroup as its base.

    A later mount at the same place, or above it, covers an earlier one.
    """
    seen: dict[Path, Hierarchy] = {}
    places = _own_places(own.read_text())
    for line in mountinfo.read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = [*right.split(" ", 2), "", ""][:3]
        root, mountpoint = left.split()[3], Path(left.split()[4])
        seen = {place: each for place, each in seen.items() if not place.is_relative_to(mountpoint)}
        if kind == "cgroup":
            names = tuple(n for n in options.split(",") if n not in {"rw", "ro", "xattr"} and "=" not in n)
            found = Hierarchy(mountpoint=mountpoint, version=1, controllers=names, options=_v1_options(options))
            named = next((option for option in options.split(",") if option.startswith("name=")), "")
            seen[mountpoint] = replace(found, base=_below(root, places.get(frozenset(names or (named,)), "/")))
        elif kind == "cgroup2":
            base = _below(root, places.get(frozenset(), "/"))
            seen[mountpoint] = Hierarchy(mountpoint=mountpoint, version=2, base=base)
    return [each for each in seen.values() if each.version == 1] or list(seen.values())


def _own_places(text: str) -> dict[frozenset[str], str]:
    """Return our own cgroup in each hierarchy, by its controllers; v2 has none (cgroups(7), /proc/PID/cgroup)."""
    lines = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    return {frozenset(filter(None, names.split(","))): path for _, names, path in lines}


def _below(root: str, path: str) -> str:
    """Return a cgroup's path below the mounted root; "" if it is not below it, such as another namespace's."""
    inside = PurePosixPath(path)
    if ".." in inside.parts or not inside.is_relative_to(root):
        return ""
    relative = str(inside.relative_to(root))
    return "" if relative == "." else relative


def _usable(found: Hierarchy) -> Hierarchy | None:
    """Return a hierarchy with a base that we can use, our own cgroup or the nearest above it; None if there is none."""
    if os.statvfs(found.mountpoint).f_flag & os.ST_RDONLY:
        return None
    wanted = set(controllers_of(found.mountpoint)) & set(HANDED_ON)
    for base in (found.base, *map(str, PurePosixPath(found.base).parents)) if found.base else ("",):
        folder = found.mountpoint / base
        if not os.access(folder, os.W_OK):
            continue
        if found.version == 1 or folder == found.mountpoint:
            return replace(found, base="" if base == "." else base)
        # In v2 a group with processes cannot delegate controllers, nor can a group delegate those that it has not
        # received.
        holds_processes = bool(read_pids(folder / "cgroup.procs"))
        writable = os.access(folder / "cgroup.procs", os.W_OK)
        if writable and not holds_processes and wanted <= set(controllers_of(folder)):
            return replace(found, base=base)
    return None


def file_systems(groups: Sequence[Hierarchy]) -> list[tuple[str, str, str]]:
    """Return the file systems to mount below /sys/fs/cgroup in a new cgroup namespace: type, options, target."""
    return [
        ("cgroup2" if h.version == 2 else "cgroup", "" if h.version == 2 else h.options, str(h.mountpoint))
        for h in groups
    ]


def _v1_options(options: str) -> str:
    named = [o for o in options.split(",") if o.startswith("name=")]
    plain = [o for o in options.split(",") if o not in {"rw", "ro", "xattr"} and "=" not in o]
    return ",".join((["none", *named] if named and not plain else []) + ([] if named and not plain else plain))


def controllers_of(folder: Path) -> list[str]:
    """Return the controllers that a group of v2 has been handed."""
    return words_of(folder / "cgroup.controllers")


def words_of(file: Path) -> list[str]:
    """Return the words of a file, none if it does not exist."""
    return file.read_text().split() if file.exists() else []


def read_pids(procs: Path | str) -> set[int]:
    """Return the processes that a cgroup.procs lists, but those of another pid namespace."""
    return {int(line) for line in read_text(str(procs)).split() if line != "0"}  # no text: the group was removed


def thaw(pids: set[int]) -> None:
    """Thaw the cgroups of v1's freezer that hold some of these processes and no others."""
    for freezer in (each for each in mounted(MOUNTINFO, OWN) if each.can_freeze):
        for path in {path for pid in pids if (path := _freezer_of(pid))}:
            folder = freezer.mountpoint / path
            if read_pids(folder / "cgroup.procs") <= pids:
                with suppress(OSError):
                    (folder / FREEZER).write_text("THAWED")


def _freezer_of(pid: int) -> str:
    """Return a process's cgroup of v1's freezer, below the mountpoint; "" where it is the topmost."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":freezer:/")[2] for line in lines if ":freezer:/" in line), "")
