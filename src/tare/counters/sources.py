"""Read the kernel's sources of counters as rarely as possible: a reading takes time that the launches do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from tare.counters import netlink, qdisc
from tare.counters.files import KernelFiles, why_unread
from tare.errors import InfrastructureError

T = TypeVar("T")
NAMED: Final = {
    "TCP": "/proc/self/net/netstat",
    "connection tracking": "/proc/self/net/stat/nf_conntrack",
    "softnet": "/proc/net/softnet_stat",
    "softirqs": "/proc/softirqs",
    "page reclaim": "/proc/vmstat",
    "pressure": "/proc/pressure/cpu",
}
"""The sources that a kernel may lack or forbid, by name."""


class Sources:
    """Sources that are read again and again. Each is read once at a moment, and parsed only if its text has changed.

    Files and sockets stay open until `close`, and so do the network namespaces that they belong to. Results are shared
    and must not be changed.
    """

    def __init__(self) -> None:
        self._files = KernelFiles()
        self._sockets: dict[int, netlink.Netlink] = {}
        self._moment = 0
        self._read: dict[tuple[str, Callable[[str], Any]], Any] = {}
        self._queues: dict[int, Mapping[str, int] | None] = {}
        self._texts: dict[tuple[str, Callable[[str], Any]], tuple[str, Any]] = {}
        self._lacking: tuple[str, ...] | None = None

    def begin(self, moment: int = 0) -> None:
        """Begin a reading; what was read at the same moment is not read again. Moment 0 is always a new one."""
        if not moment or moment != self._moment:
            self._read.clear()
            self._queues.clear()
        self._moment = moment

    def parsed(self, path: str, parse: Callable[[str], T]) -> T:
        """Return what `parse` finds in the text of a file, which is "" if the file cannot be read."""
        key = path, parse
        if key in self._read:
            found: T = self._read[key]
            return found
        text = self._files.text(path)
        last = self._texts.get(key)
        if last is None or last[0] != text:
            last = self._texts[key] = text, parse(text)
        self._read[key] = found = last[1]
        return found

    def queues(self, pid: int) -> Mapping[str, int] | None:
        """Return the counters of the queues in a process's network namespace, None if they cannot be read."""
        if pid not in self._queues:
            try:
                if pid not in self._sockets:
                    self._sockets[pid] = netlink.Netlink(pid)
                self._queues[pid] = qdisc.totals_in(self._sockets[pid].messages(netlink.GET_QDISCS))
            except (OSError, InfrastructureError):
                self._queues[pid] = None
        return self._queues[pid]

    def lacking(self) -> tuple[str, ...]:
        """Return which sources cannot be read here, and why."""
        if self._lacking is None:
            self._lacking = tuple(f"{name} ({why})" for name, path in NAMED.items() if (why := why_unread(path)))
        return self._lacking

    def close(self) -> None:
        """Close what is open and forget what was read."""
        self._files.close()
        for each in self._sockets.values():
            each.close()
        for kept in (self._sockets, self._read, self._queues, self._texts):
            kept.clear()
        self._moment, self._lacking = 0, None
