"""Create and remove cgroups with their own cores, on cgroup v1 and v2.

All of them are below one cgroup of tare's (`tare`), which is made in the caller's own cgroup, so that the limits set by
a batch system or an administrator apply to everything that tare starts. In v1 a group is a folder in every hierarchy;
in v2 it is one folder. A lab's group is marked (`tare.system.node.cgroup_marks`): nothing in an unmarked one is ever
killed or removed.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.system.node.cgroup_marks import forget, is_ours, mark, note, noted
from tare.system.node.hierarchies import (
    FREEZER,
    HANDED_ON,
    MARK,
    MOUNTINFO,
    OWN,
    Hierarchy,
    controllers_of,
    file_systems,
    hierarchies,
    mounted,
    read_pids,
    words_of,
)
from tare.system.node.kernel_files import read_text
from tare.system.node.stragglers import are_exiting, listing, look
from tare.system.paths import run_folder

__all__ = ["MARK", "NO_GROUP", "Group", "Hierarchy", "file_systems", "hierarchies"]

REMOVED_MEANWHILE: Final = 5
"""How often to recreate tare's cgroup before its removal by others is an error."""
FIRST_PAUSE_S: Final = 0.001
EXIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cgroup, by its path below tare's, in all hierarchies that we may write to."""

    path: str
    hierarchies: tuple[Hierarchy, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the group's folder in every hierarchy."""
        return tuple(map(Path, self.names))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of these folders, which takes less time."""
        return tuple(map(self.name_in, self.hierarchies))

    def name_in(self, hierarchy: Hierarchy) -> str:
        """Return the name of the group's folder in a hierarchy."""
        return os.path.join(hierarchy.mountpoint, hierarchy.base, hierarchy.below, self.path)

    @property
    def bases(self) -> dict[str, str]:
        """Return the path of tare's cgroup in each hierarchy, for an owner's note."""
        return {str(each.mountpoint): each.base for each in self.hierarchies}

    @property
    def version(self) -> int:
        """Return 2 on a unified hierarchy, 1 on the older ones, 0 if we have no cgroup."""
        return self.hierarchies[0].version if self.hierarchies else 0

    def below(self, name: str) -> Group:
        """Return a group inside this one."""
        return Group(path=f"{self.path}/{name}".lstrip("/"), hierarchies=self.hierarchies)

    def create(self, cpus: Sequence[int] = ()) -> Group:
        """Create the folders, with the cores `cpus` (empty: the parent's)."""
        self._check_path()
        for hierarchy in self.hierarchies:
            _make(hierarchy, self.path, cpus)
        return self

    def _check_path(self) -> None:
        if any(part in ("", ".", "..") for part in self.path.split("/")):
            raise InfrastructureError(f"{self.path!r} cannot name a cgroup")

    def _is_ours(self, hierarchy: Hierarchy) -> bool:
        return is_ours(hierarchy.top / self.path.split("/")[0])

    @property
    def leaf(self) -> Group:
        """Return the group for the group's own processes: in v2 one that delegates controllers may have none."""
        return self.below("host") if self.version == 2 else self

    def create_leaf(self) -> Group:
        """Create the leaf without delegating controllers to it: a process may still have to pass through the group."""
        leaf = self.leaf
        if leaf is not self:
            for folder in leaf.folders:
                folder.mkdir(exist_ok=True)
        return leaf

    def add(self, pid: int) -> None:
        """Move a process into the group; it may have ended already."""
        for folder in self.folders:
            with suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(pid))

    def pids(self) -> set[int]:
        """Return the processes in this group and below it."""
        return pids_below(self._counted)

    @property
    def _counted(self) -> Path:
        """Return the folder of one hierarchy: each of tare's processes is in the same group of all of them."""
        chosen = next((h for h in self.hierarchies if "pids" in h.controllers), None)
        first = chosen or next(iter(self.hierarchies), None)
        return first.top / self.path if first else Path("/nonexistent")

    def kill(self, *, spare: Iterable[int] = (), deadline_s: float = 3.0) -> None:
        """Kill every process in the group, except those in `spare`, and wait until they have ended.

        What a program has frozen is thawed: in v1 a frozen process does not end. From the second pass on all are frozen
        while they are killed, so that none can start another one meanwhile. Raises `InfrastructureError` if the group
        does not belong to one of tare's labs, or if processes do not end in time. What is ending has `EXIT_S`: the
        first process of a PID namespace waits until an init of the machine has collected its orphans.
        """
        self._check_path()
        spared = set(spare)
        until = time.monotonic() + deadline_s
        pause = FIRST_PAUSE_S
        while left := self.pids() - spared:
            there = (each for each in self.hierarchies if (each.top / self.path).exists())
            if foreign := next((each.top for each in there if not self._is_ours(each)), None):
                raise InfrastructureError(f"{foreign / self.path} has no mark of tare's: nothing in it is ended")
            with self._stopped(pause > FIRST_PAUSE_S):
                for pid in left:
                    _kill(pid)
            now = time.monotonic()
            if now > until and (now > until + EXIT_S or not are_exiting(left)):
                raise InfrastructureError(
                    f"processes {sorted(left)} of {self.path} do not end",
                    remedy=f"{listing(look(left))}\nin state D they wait in the kernel (for a disk, NFS) and end when "
                    "it answers, or with the next boot",
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    @contextmanager
    def _stopped(self, wanted: bool) -> Iterator[None]:
        """Freeze the group with v1's freezer while the block runs, if `wanted`; thaw all groups of its lab afterwards.

        A program may have moved to a group of its own in that hierarchy alone, but not out of its lab's, in a lab.
        """
        freezers = [each for each in self.hierarchies if each.can_freeze]
        if wanted:
            _write_below([Path(self.name_in(each)) for each in freezers], FREEZER, "FROZEN")
        yield
        _write_below([each.top / self.path.split("/")[0] for each in freezers], FREEZER, "THAWED")

    def remove(self) -> None:
        """Remove the group and all groups below it if they are tare's; they must not contain processes."""
        self._check_path()
        for hierarchy in self.hierarchies:
            folder = hierarchy.top / self.path
            if not self._is_ours(hierarchy):
                continue
            is_lab = "/" not in self.path
            if is_lab:
                forget(folder)
            for inner, _, _ in os.walk(folder, topdown=False):  # another run may remove some meanwhile
                _rmdir(Path(inner))
            if is_lab:
                _remove_top(hierarchy.top)

    def usage_s(self) -> float:
        """Return the CPU time that the group has used, in seconds; 0 if no hierarchy counts it."""
        return next((used_s for folder in self.folders if (used_s := cpu_time_s(str(folder))) is not None), 0.0)


def cpu_time_s(folder: str) -> float | None:
    """Return the CPU time of a cgroup by its folder, in seconds; None if its hierarchy does not count it."""
    nanoseconds = read_text(f"{folder}/cpuacct.usage").strip()
    if nanoseconds.isdecimal():
        return int(nanoseconds) / 1e9
    counted = re.search(r"^usage_usec (\d+)$", read_text(f"{folder}/cpu.stat"), re.MULTILINE)
    return int(counted[1]) / 1e6 if counted else None


NO_GROUP: Final = Group(path="", hierarchies=())


def of_launches(name: str, mountinfo: Path = MOUNTINFO, own: Path = OWN) -> Group:
    """Return the cgroup of a run's launches on a real node, by which they are found.

    It is in one hierarchy, in which nothing is limited or shared out, and below our own cgroup: it changes nothing for
    the launches. No controllers are handed on to it, as in v1.
    """
    found = sorted(mounted(mountinfo, own), key=lambda each: "pids" not in each.controllers)
    return Group(path=name, hierarchies=tuple(replace(each, version=1, controllers=()) for each in found[:1]))


@contextmanager
def made(group: Group) -> Iterator[Group]:
    """Keep a cgroup, and end all in it with it; yield an empty one where we may make none."""
    try:
        group.create()
    except (InfrastructureError, OSError):
        yield NO_GROUP
        return
    try:
        yield group
    finally:
        with suppress(InfrastructureError):  # what does not end is named by its trial, and by `tare clean`
            group.kill()
            group.remove()


def bases() -> dict[str, str]:
    """Return the path of tare's cgroup in each hierarchy, so that a process in another cgroup can find it."""
    return group("").bases


def at(found: Sequence[Hierarchy], bases: Mapping[str, str]) -> tuple[Hierarchy, ...]:
    """Return hierarchies with recorded bases."""
    return tuple(replace(each, base=bases.get(str(each.mountpoint), each.base)) for each in found)


def group(path: str, noted: Mapping[str, str] | None = None) -> Group:
    """Return the group at a path below tare's cgroup, whose location may be `noted`; nothing is created."""
    return Group(path=path, hierarchies=at(hierarchies(), noted or {}))


def _make(hierarchy: Hierarchy, path: str, cpus: Sequence[int]) -> None:
    folder = hierarchy.top.parent
    parts = (MARK, *path.split("/"))
    for depth, part in enumerate(parts):
        parent, folder = folder, folder / part
        try:
            if depth == 1:
                _make_lab(hierarchy, folder)
            elif depth > 1:
                if hierarchy.version == 2:
                    _hand_on_controllers(parent)
                folder.mkdir(exist_ok=True)
            else:
                _make_top(hierarchy, folder)
        except OSError as error:
            raise InfrastructureError(
                f"cannot make the cgroup {folder}: {error.strerror}", remedy="run as root, or as a user in the lab"
            ) from error
        if depth == 1 and not is_ours(folder):
            raise InfrastructureError(
                f"the cgroup {folder} exists and was not created by tare with the state folder {run_folder()}",
                remedy="remove it, or choose another name",
            )
        with suppress(FileNotFoundError) if folder == hierarchy.top else nullcontext():  # _make_lab makes it again
            _inherit_cores(hierarchy, parent, folder)
        if cpus and depth == len(parts) - 1 and (folder / "cpuset.cpus").exists():
            (folder / "cpuset.cpus").write_text(",".join(map(str, cpus)))


def _make_top(hierarchy: Hierarchy, top: Path) -> None:
    """Create tare's cgroup, and record on it the controllers delegated for it, so that its removal can undo that."""
    handed_on = _hand_on_controllers(top.parent) if hierarchy.version == 2 else ()
    if _made(top) and handed_on:
        note(top, " ".join(handed_on))


def _make_lab(hierarchy: Hierarchy, folder: Path) -> None:
    """Create a lab's group; recreate tare's cgroup if another run removes it meanwhile with its own last lab."""
    for again in range(REMOVED_MEANWHILE):
        try:
            if again:
                _make_top(hierarchy, folder.parent)
                _inherit_cores(hierarchy, folder.parent.parent, folder.parent)
            if hierarchy.version == 2:
                _hand_on_controllers(folder.parent)
            if _made(folder):
                mark(folder)
        except FileNotFoundError:
            if again == REMOVED_MEANWHILE - 1:
                raise
        else:
            return


def _inherit_cores(hierarchy: Hierarchy, parent: Path, folder: Path) -> None:
    """In v1, copy the parent's cores and memory nodes to a new group, which starts without any."""
    if "cpuset" in hierarchy.controllers:
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not (folder / name).read_text().strip():
                (folder / name).write_text((parent / name).read_text())


def _made(folder: Path) -> bool:
    """Create a folder; return whether it is new."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _hand_on_controllers(folder: Path) -> tuple[str, ...]:
    """Delegate the controllers that tare uses and that are not delegated yet; return them."""
    available = controllers_of(folder)
    before = words_of(folder / "cgroup.subtree_control")
    wanted = tuple(name for name in HANDED_ON if name in available and name not in before)
    for name in wanted:
        (folder / "cgroup.subtree_control").write_text(f"+{name}")
    return wanted


def _remove_top(top: Path) -> None:
    """Remove tare's cgroup after the last lab, and revoke the controllers delegated for it."""
    handed_on = noted(top)
    with suppress(OSError):  # it still contains other labs
        top.rmdir()
        for name in handed_on.split():
            (top.parent / "cgroup.subtree_control").write_text(f"-{name}")


def pids_below(folder: Path) -> set[int]:
    """Return the processes in a cgroup and below it, by its folder."""
    return {pid for inner, _, _ in os.walk(folder) for pid in read_pids(f"{inner}/cgroup.procs")}


def _write_below(folders: Iterable[Path], name: str, text: str) -> None:
    """Write a file in each of these cgroups and below them, where it is."""
    for folder in folders:
        for inner, _, files in os.walk(folder):
            if name in files:
                with suppress(OSError):  # the group was removed meanwhile
                    Path(inner, name).write_text(text)


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
