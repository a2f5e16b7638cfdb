"""Find and remove what carries our mark: holders, daemons, cgroups, state folders.

Namespaces, links and mounts live in holders' namespaces and go with them. Nothing is found by a program's name alone:
a process is ours if it is in a cgroup below our mark, or is a holder with our mark in its command line.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.cgroups import MARK, Group, hierarchies
from tare.cluster.lab_site import start_time
from tare.docker import STAYS
from tare.namespaces import HOLDER
from tare.paths import cache_folder, run_folder

HOLDER_NAME: Final = HOLDER.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One thing of ours, in words; `lab` is the lab it belongs to."""

    lab: str
    what: str


def find(*, dead_only: bool = False) -> tuple[Leftover, ...]:
    """Return all that carries our mark; with `dead_only` only what belongs to runs that are over."""
    found = [
        Leftover(lab=lab, what=f"process {pid} of {lab}")
        for lab, pids in sorted(processes().items())
        for pid in sorted(pids)
    ]
    found += [Leftover(lab=lab, what=f"cgroup /{MARK}/{lab}") for lab in sorted(groups())]
    found += [Leftover(lab=lab, what=f"folder {folder}") for lab, folder in sorted(folders())]
    # Asked last: a lab tells its owner before it is made, so that one that came up meanwhile is not taken for dead.
    alive = living_labs() if dead_only else set()
    return tuple(item for item in found if item.lab not in alive)


def remove(*, dead_only: bool = False) -> tuple[Leftover, ...]:
    """Remove all that carries our mark and return what it was."""
    found = find(dead_only=dead_only)
    labs = {item.lab for item in found}
    for lab in sorted(labs):
        remove_lab(lab)
    return found


def remove_lab(lab: str) -> None:
    """Remove all of one lab: processes, cgroups, state folders."""
    marked = processes().get(lab, set())
    group = Group(path=lab, hierarchies=hierarchies())
    group.kill()
    for pid in marked:
        _kill(pid)
    group.remove()
    for name, folder in folders():
        if name == lab:
            shutil.rmtree(folder, ignore_errors=True)
    for folder in (cache_folder() / "docker").glob(f"{STAYS}{lab}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def leftovers_of_the_dead() -> tuple[Leftover, ...]:
    """Remove what killed runs left behind."""
    return remove(dead_only=True)


def processes() -> dict[str, set[int]]:
    """Return the processes of every lab: those in its cgroup, and its holders."""
    found: dict[str, set[int]] = {}
    for lab in groups():
        pids = Group(path=lab, hierarchies=hierarchies()).pids()
        if pids:
            found.setdefault(lab, set()).update(pids)
    for entry in Path("/proc").iterdir():
        holder = _holder_of(entry) if entry.name.isdigit() else None
        if holder is not None:
            found.setdefault(holder, set()).add(int(entry.name))
    return found


def groups() -> set[str]:
    """Return the labs that have a cgroup."""
    return {
        folder.name
        for hierarchy in hierarchies()
        for folder in (hierarchy.mountpoint / MARK).glob("*")
        if folder.is_dir()
    }


def folders() -> list[tuple[str, Path]]:
    """Return the state folders with the lab that each belongs to."""
    found = []
    for file in run_folder().glob("*/owner.json"):
        try:
            found.append((str(json.loads(file.read_text())["lab"]), file.parent))
        except (OSError, ValueError, KeyError, TypeError):
            found.append((file.parent.name.rsplit("-", 1)[0], file.parent))
    return found


def living_labs() -> set[str]:
    """Return the labs whose owner still runs, and those that were made to stay (`tare lab up`)."""
    alive = set()
    for lab, folder in folders():
        try:
            owner = json.loads((folder / "owner.json").read_text())
            lives = owner.get("stays") or (owner.get("start") and start_time(int(owner["pid"])) == owner["start"])
        except (AttributeError, KeyError, OSError, TypeError, ValueError):
            continue
        if lives:
            alive.add(lab)
    return alive


def running_beside() -> tuple[int, ...]:
    """Return the processes of ours that keep labs up beside this one; they share the machine's cores with it."""
    found = set()
    for _, folder in folders():
        try:
            owner = json.loads((folder / "owner.json").read_text())
            if owner.get("start") and start_time(int(owner["pid"])) == owner["start"]:
                found.add(int(owner["pid"]))
        except (AttributeError, KeyError, OSError, TypeError, ValueError):
            continue
    return tuple(sorted(found - {os.getpid()}))


def _holder_of(entry: Path) -> str | None:
    try:
        owner = entry.stat().st_uid
        argv = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if owner != os.geteuid():  # the labs of other users are theirs, alive or not
        return None
    if len(argv) <= 3 or not argv[2].endswith(HOLDER_NAME.encode()) or not argv[3].startswith(b"tare:"):
        return None
    told_in = argv[4].decode() if len(argv) > 4 else ""
    if told_in in ("", str(run_folder())):  # a user may have more than one folder of states; who lives is told in one
        return argv[3].decode().split(":")[1].split("-", 1)[0]
    return None


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass
