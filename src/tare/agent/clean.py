"""Find and remove everything with tare's mark, also of runs that were killed: holders, daemons, cgroups, state folders.

Namespaces, links and mounts live in holders' namespaces and disappear with them. Neither a name nor a path identifies
anything as ours, because a tare in a container has the same ones. A process is ours if it is in a cgroup or is a holder
whose mark names our state folder (`state_identity`). It is killed only if it is still the same process (number and
start time).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tare.agent import site_folder
from tare.daemons import docker
from tare.errors import InfrastructureError
from tare.runtimes.containers import user_podman
from tare.system.namespaces import read_holder
from tare.system.node import marked_processes
from tare.system.node.cgroup_marks import is_ours
from tare.system.node.cgroups import EXIT_S, MARK, Group, Hierarchy, at, hierarchies
from tare.system.node.owners import NOTE, is_lab_name, is_of_this_machine, lives, read_note, this_boot
from tare.system.node.process_stat import start_time
from tare.system.node.stragglers import are_exiting, listing, look
from tare.system.paths import run_folder, state_identity
from tare.system.waiting import wait_until

if TYPE_CHECKING:
    from typing import TypeGuard

AGAIN_S: Final = 0.3
"""How long to wait for processes that an earlier command could not kill."""
DEADLINE_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A remnant of a lab, in words; `lab` is the lab's name, `stays` why the remnant could not be removed, or ""."""

    lab: str
    what: str
    stays: str = ""


def find(*, dead_only: bool = False, running: bool = True) -> tuple[Leftover, ...]:
    """Return everything with tare's mark; with `dead_only` only what belongs to runs that have ended.

    Unless `running`, what a process of tare keeps up is left out, but not a lab that stays.
    """
    found = [
        Leftover(lab=lab, what=f"process {pid} of {lab}")
        for lab, pids in sorted(processes().items())
        for pid in sorted(pids)
    ]
    found += [Leftover(lab=lab, what=f"cgroup /{MARK}/{lab}") for lab in sorted(groups())]
    found += [Leftover(lab=lab, what=f"folder {folder}") for lab, folder in sorted(folders())]
    # Check living labs last: a lab records its owner before it is made, so a lab that came up meanwhile is not taken
    # for dead.
    alive = living_labs() if dead_only else set() if running else set(living_owners())
    return tuple(item for item in found if item.lab not in alive)


def remove(*, dead_only: bool = False, running: bool = True, noted_only: bool = False) -> tuple[Leftover, ...]:
    """Remove what `find` returns, and return the list; a process that does not end is listed with the reason.

    With `noted_only`, what has no owner's note here is left: a node that is itself in a lab sees the cgroups of others.
    """
    noted = {lab for lab, _ in notes()}
    every = find(dead_only=dead_only, running=running)
    found = tuple(item for item in every if not noted_only or item.lab in noted)
    stays = {lab: remove_lab(lab) for lab in sorted({item.lab for item in found})}
    return tuple(item if item.what.startswith("folder ") else replace(item, stays=stays[item.lab]) for item in found)


def remove_lab(lab: str) -> str:
    """Remove a lab's processes, cgroups and state folders.

    Return why some processes, and so their cgroup, remain, or "".
    """
    if not is_lab_name(lab):
        raise InfrastructureError(f"{lab!r} cannot name a lab: nothing of it is removed")
    killed = {pid: start_time(pid) for pid in processes().get(lab, set())}
    stated = [folder for name, folder in folders() if name == lab]
    stays = ""
    for group in groups().get(lab, ()):
        try:
            group.kill(deadline_s=DEADLINE_S if stated and not stays else AGAIN_S)
        except InfrastructureError as error:
            stays = stays or f"{error.message}; {error.remedy}"
    seen: dict[int, int] = {}
    while killed:
        for pid, started in killed.items():
            _kill(pid, started)
        seen |= killed
        later = processes().get(lab, set()) - seen.keys()  # what one of them started meanwhile
        killed = {pid: start_time(pid) for pid in later}
    stays = stays or _still(lab, seen)
    for folder, note in _notes():
        if folder in stated:
            site_folder.remove_noted(note)
    if not stays:
        for group in groups().get(lab, ()):
            group.remove()
    for folder in stated:
        user_podman.remove_tree(folder)
    docker.remove_staying(lab)
    return stays


def _still(lab: str, killed: Mapping[int, int]) -> str:
    """Return which processes that were killed, by start time, do not end, or ""."""
    until = time.monotonic() + AGAIN_S
    while left := [pid for pid, started in killed.items() if started and start_time(pid) == started]:
        now = time.monotonic()
        if now > until and (now > until + EXIT_S or not are_exiting(left)):
            return f"processes {left} of {lab} do not end; {listing(look(left))}"
        time.sleep(0.01)
    return ""


def head_is_here(lab: str) -> bool:
    """Return whether the head of a site runs on this machine, which is then a node too."""
    return any(note.get(site_folder.HEAD) and _lives(note) for name, note in notes() if name == lab)


def remove_dead_services(lab: str) -> None:
    """Remove the notes of services of a site that have ended; its head is on this machine and goes on."""
    for folder, note in _notes():
        if _lab_of(folder, note) == lab and not note.get(site_folder.HEAD) and not _lives(note):
            user_podman.remove_tree(folder)


def end_owners(lab: str) -> None:
    """End the processes that keep a lab up, which undo what they hold; one that does not in time is killed.

    The head of a site is spared: it may be on a machine that is one of its nodes.
    """
    for folder, note in _notes():
        if note.get(site_folder.HEAD):
            continue
        if _lab_of(folder, note) == lab and _lives(note) and int(note["pid"]) != os.getpid():
            _end(int(note["pid"]), int(note["start"]))


def _end(pid: int, started: int) -> None:
    _signal(pid, started, signal.SIGTERM)
    wait_until(lambda: start_time(pid) != started, DEADLINE_S, pause_s=0.01)
    _kill(pid, started)


def leftovers_of_the_dead(say: Callable[[str], None] = lambda _: None) -> tuple[Leftover, ...]:
    """Remove the leftovers of killed runs; `say` reports processes that do not end, for which no later run waits."""
    found = remove(dead_only=True)
    for stays in dict.fromkeys(item.stays for item in found if item.stays):
        say(f"tare: something of an earlier run is left: {stays}")
    return found


def free_name(wanted: str) -> str:
    """Return a name for a lab that no lab uses, nor the remains of one that could not be removed."""
    taken = {folder.name for hierarchy in hierarchies() for folder in hierarchy.top.glob("*")}
    return next(name for number in count() if (name := f"{wanted}x{number}" if number else wanted) not in taken)


def unmarked() -> tuple[Path, ...]:
    """Return the foreign cgroups next to those of labs, each in one hierarchy: none of them is touched."""
    found = (folder for hierarchy in _everywhere() for folder in sorted(hierarchy.top.glob("*")) if folder.is_dir())
    return tuple({folder.name: folder for folder in found if not is_ours(folder)}.values())


def processes() -> dict[str, set[int]]:
    """Return the processes of every lab: those in its cgroup, its holders, and those marked with its name."""
    found: dict[str, set[int]] = {}
    for lab, every in groups().items():
        if pids := {pid for group in every for pid in group.pids()}:
            found.setdefault(lab, set()).update(pids)
    for entry in Path("/proc").iterdir():
        holder = _holder_of(entry) if entry.name.isdigit() else None
        if holder is not None:
            found.setdefault(holder, set()).add(int(entry.name))
    for lab, folder in folders():
        if pids := marked_processes.pids_of_run(lab, folder):
            found.setdefault(lab, set()).update(pids)
    return found


def groups() -> dict[str, tuple[Group, ...]]:
    """Return our labs that have a cgroup, with the cgroup in each hierarchy."""
    found: dict[str, tuple[Group, ...]] = {}
    for hierarchy in _everywhere():
        for folder in hierarchy.top.glob("*"):
            if folder.is_dir() and is_lab_name(folder.name) and is_ours(folder):
                own = Group(path=folder.name, hierarchies=(hierarchy,))
                found[folder.name] = (*found.get(folder.name, ()), own)
    for lab, every in found.items():  # what is frozen ends only when it is thawed, in the freezer's hierarchy
        found[lab] = tuple(sorted(every, key=lambda each: not each.hierarchies[0].can_freeze))
    return found


def _everywhere() -> tuple[Hierarchy, ...]:
    """Return the hierarchies with every base that may contain a tare cgroup: each run uses its own cgroup."""
    own = hierarchies()
    noted = [note.get("cgroups") for _, note in _notes()]
    bases: list[dict[str, str]] = [{}, {str(each.mountpoint): "" for each in own}, *filter(_is_bases, noted)]
    return tuple(dict.fromkeys(hierarchy for each in bases for hierarchy in at(own, each)))


def _is_bases(noted: object) -> TypeGuard[dict[str, str]]:
    return isinstance(noted, dict) and all(isinstance(base, str) and ".." not in base for base in noted.values())


def folders() -> list[tuple[str, Path]]:
    """Return the state folders with the lab that each belongs to."""
    return [(_lab_of(folder, note), folder) for folder, note in _notes()]


def notes() -> list[tuple[str, Mapping[str, Any]]]:
    """Return the owners' notes, each with its lab; a damaged one is empty."""
    return [(_lab_of(folder, note), note) for folder, note in _notes()]


def _lab_of(folder: Path, note: Mapping[str, Any]) -> str:
    named = note.get("lab")
    if isinstance(named, str) and is_lab_name(named):
        return named
    return (
        "".join(each for each in folder.name.rsplit("-", 1)[0] if each.isalnum() and each.isascii())[:32] or "unknown"
    )


def _notes() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every state folder with its owner note; a damaged note is empty."""
    for file in run_folder().glob(f"*/{NOTE}"):
        if is_of_this_machine(note := read_note(file)):
            yield file.parent, note


def living_labs() -> set[str]:
    """Return the labs whose owner still runs, and those made to persist (`tare lab up`) since this boot."""
    return {
        _lab_of(folder, note)
        for folder, note in _notes()
        if note.get("lab") and ((note.get("stays") and this_boot(note)) or _lives(note))
    }


def living_owners() -> dict[str, int]:
    """Return the labs that a process keeps up, with its number."""
    return {_lab_of(folder, note): int(note["pid"]) for folder, note in _notes() if _lives(note)}


def running_beside() -> tuple[int, ...]:
    """Return the tare processes that keep other labs up, which share the machine's cores with this one."""
    return tuple(sorted(set(living_owners().values()) - {os.getpid()}))


def _lives(note: Mapping[str, Any]) -> bool:
    try:
        return lives(note)
    except (TypeError, ValueError):
        return False


def _holder_of(entry: Path) -> str | None:
    """Return the lab of ours whose namespaces a process holds, or None.

    It is validated, because any process can choose its command line.
    """
    mark, state = read_holder(entry)
    try:
        if not state or entry.stat().st_uid != os.geteuid():  # labs of other users belong to them, alive or not
            return None
    except OSError:
        return None
    if state != state_identity():
        return None
    lab = mark.split(":")[1].split("-", 1)[0]
    return lab if is_lab_name(lab) else None


def _kill(pid: int, started: int) -> None:
    """Kill a process if its number still belongs to the process that was found."""
    _signal(pid, started, signal.SIGKILL)


def _signal(pid: int, started: int, number: int) -> None:
    try:
        opened = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if started and start_time(pid) == started:
            signal.pidfd_send_signal(opened, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(opened)
