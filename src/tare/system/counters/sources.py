"""Read the kernel's sources of counters as rarely as possible: a reading takes time that the launches do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tare.errors import InfrastructureError
from tare.system.counters import netlink
from tare.system.node.kernel_files import KernelFile, why_unread

Numbers = Mapping[Any, float]
"""What a source's content says, by name. It is shared and must not be changed."""
Parse = Callable[[bytes], Numbers]
NAMED: Final = {
    "TCP": "/proc/self/net/netstat",
    "connection tracking": "/proc/self/net/stat/nf_conntrack",
    "softnet": "/proc/net/softnet_stat",
    "page reclaim": "/proc/vmstat",
    "pressure": "/proc/pressure/cpu",
}
"""The sources that a kernel may lack or forbid, by name."""


class Content:
    """What a source contained at a moment, empty if it could not be read. It is parsed when that is asked for, once."""

    __slots__ = ("_parsed", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._parsed: dict[Parse, Numbers] = {}

    def parsed(self, parse: Parse) -> Numbers:
        """Return what `parse` finds in it."""
        found = self._parsed.get(parse)
        if found is None:
            found = self._parsed[parse] = parse(self.data)
        return found


class CounterSource:
    """A source that is read again and again, but once at a moment."""

    __slots__ = ("_content", "_moment", "_read", "close")

    def __init__(self, read: Callable[[], bytes], close: Callable[[], None]) -> None:
        self._read = read
        self._moment = 0
        self._content = Content(b"")
        self.close = close

    def take(self, moment: int) -> Content:
        """Return the content at a moment; moment 0 is always a new one. It is the last content if nothing changed."""
        if not moment or moment != self._moment:
            self._moment = moment
            data = self._read()
            if data != self._content.data:
                self._content = Content(data)
        return self._content


class Sources:
    """Sources by what they read. Files and sockets stay open until `close`, and so do their network namespaces."""

    def __init__(self) -> None:
        self._found: dict[str | int, CounterSource] = {}
        self._lacking: tuple[str, ...] | None = None
        self._latest = 0

    def latest(self, moment: int, since: int) -> int:
        """Return the latest moment of these sources if it is `since` or later: then nothing has used them after it.

        Otherwise `moment` becomes the latest. That is always so if `since` is 0.
        """
        if not since or self._latest < since:
            self._latest = moment
        return self._latest

    def file(self, path: str) -> CounterSource:
        """Return the source that is a file."""
        if path not in self._found:
            file = KernelFile(path)
            self._found[path] = CounterSource(file.read, file.close)
        return self._found[path]

    def queues(self, pid: int) -> CounterSource:
        """Return the source that lists the queues in a process's network namespace, for `qdisc.totals`."""
        if pid not in self._found:
            queues = _Queues(pid)
            self._found[pid] = CounterSource(queues.read, queues.close)
        return self._found[pid]

    def lacking(self) -> tuple[str, ...]:
        """Return which sources cannot be read here, and why."""
        if self._lacking is None:
            self._lacking = tuple(f"{name} ({why})" for name, path in NAMED.items() if (why := why_unread(path)))
        return self._lacking

    def close(self) -> None:
        """Close what is open and forget what was read."""
        for each in self._found.values():
            each.close()
        self._found.clear()
        self._lacking = None


class _Queues:
    """The queueing disciplines in a process's network namespace; the socket stays open until `close`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._socket: netlink.Netlink | None = None

    def read(self) -> bytes:
        """Return the kernel's answer, empty if the namespace cannot be entered or does not answer."""
        try:
            if self._socket is None:
                self._socket = netlink.Netlink(self._pid)
            return self._socket.answer(netlink.GET_QDISCS)
        except (OSError, InfrastructureError):
            self.close()
            return b""

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
