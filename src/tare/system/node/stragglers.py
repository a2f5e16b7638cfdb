"""Describe a launch's processes at its time limit: whether ranks had started, and what they waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tare.system.node.kernel_files import read_text
from tare.system.node.process_stat import is_running, stat_fields

MOST: Final = 40
COMMAND_CHARACTERS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckProcess:
    """A process as shown in /proc: `state` is its letter (R, S, D, Z), `waits_in` the kernel function or empty."""

    pid: int
    name: str
    state: str
    waits_in: str
    command: str


def look(pids: Iterable[int]) -> tuple[StuckProcess, ...]:
    """Return what is known of processes, in order of their numbers; those that have ended are left out."""
    return tuple(found for pid in sorted(pids) if (found := _look(Path(f"/proc/{pid}"))) is not None)


def named(pids: Iterable[int]) -> dict[int, str]:
    """Return the names of processes by number, without those that have ended."""
    return {pid: name for pid in pids if (name := _name(pid))}


def are_exiting(pids: Iterable[int]) -> bool:
    """Return whether all of these have been killed and only wait for others, as for an init that collects zombies."""
    return all(map(_is_exiting, pids))


def _is_exiting(pid: int) -> bool:
    fields = stat_fields(pid)
    return bool(fields) and not is_running(fields)


def since(pids: Iterable[int], before: Mapping[int, str]) -> set[int]:
    """Return those that were not there `before`, and those that had another name then.

    A shell that waits in a pod becomes what is launched, with the number that it had.
    """
    return {pid for pid in pids if pid not in before or _name(pid) != before[pid]}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""


def told(pids: Iterable[int]) -> str:
    """Return a description of processes: their number by name, then a line for each; empty for none."""
    found = look(pids)
    return f"{summary(found)}\n{listing(found)}" if found else ""


def summary(found: Sequence[StuckProcess]) -> str:
    """Return the number of processes by name, as in `1 mpirun, 2 orted`; zombies are counted as ended."""
    counted = Counter(f"ended {each.name}" if each.state == "Z" else each.name for each in found)
    return ", ".join(f"{number} {name}" for name, number in counted.items())


def listing(found: Sequence[StuckProcess]) -> str:
    """Return a line for each process, at most `MOST`."""
    lines = [
        f"{each.pid} {each.state} {each.waits_in or '-'} {each.command or each.name}"[:COMMAND_CHARACTERS]
        for each in found[:MOST]
    ]
    return "\n".join(["still running (number, state, waits in, command):", *lines]) if lines else ""


def _look(entry: Path) -> StuckProcess | None:
    try:
        name, _, rest = (entry / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return None
    waits_in = read_text(f"{entry}/wchan").strip().removeprefix("0")  # 0: in nothing
    return StuckProcess(pid=int(entry.name), name=name, state=rest.split()[0], waits_in=waits_in, command=command)
