"""Read the CPU time of a cgroup again and again."""

from __future__ import annotations

from collections.abc import Callable

from tare.counters import scheduling
from tare.counters.files import KernelFiles
from tare.node.cgroups import Group


class GroupUsage:
    """The CPU time of a cgroup that exists; its file stays open until `close`."""

    def __init__(self, group: Group) -> None:
        self._path, self._parse = usage_file(group)
        self._files = KernelFiles()

    def seconds(self) -> float:
        """Return the CPU time in seconds, 0 if nothing counts it."""
        return self._parse(self._files.text(self._path)) if self._path else 0.0

    def close(self) -> None:
        """Close the file."""
        self._files.close()


def usage_file(group: Group) -> tuple[str, Callable[[str], float]]:
    """Return the file with a cgroup's CPU time, "" if there is none, and what parses it."""
    for folder in group.folders:
        nanoseconds, table = folder / "cpuacct.usage", folder / "cpu.stat"
        if nanoseconds.exists():
            return str(nanoseconds), scheduling.nanoseconds_in
        if table.exists() and "usage_usec" in table.read_text():
            return str(table), scheduling.usage_in
    return "", scheduling.usage_in
