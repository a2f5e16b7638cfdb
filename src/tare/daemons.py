"""Daemons that networks stand on (etcd, flanneld): in namespaces of a node, in a cgroup of their own below the node's.

By that cgroup they are ended, whatever they have started, and found where a killed run has left them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, TypeVar

from tare.cgroups import Group
from tare.errors import InfrastructureError
from tare.namespaces import plain_python
from tare.node import Node
from tare.process import Popen, beside

AGENT: Final = Path(__file__).parent / "agent.py"
TAIL_CHARACTERS: Final = 600
PAUSE_S: Final = 0.005

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The namespaces of process `pid` on a node; in `folder`, as it is seen inside, daemons have their files."""

    node: Node
    pid: int
    folder: str

    def path(self, name: str = "") -> Path:
        """Return where this machine sees one of the files."""
        return Path(f"/proc/{self.pid}/root{self.folder}") / name


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon that was started; `process` ends with it."""

    name: str
    place: Place
    process: Popen[str]

    @property
    def log(self) -> Path:
        """Return the file with all that it said."""
        return self.place.path(f"{self.name}.log")

    def said(self) -> str:
        """Return all that it said; "" where the log is gone."""
        try:
            return self.log.read_text(errors="replace")
        except OSError:
            return ""

    def wait_for(self, look: Callable[[], T | None], what: str, *, limit_s: float) -> T:
        """Return what `look` sees, as soon as it sees something; `what` names that, as "an answer".

        Raises `InfrastructureError` with the end of the daemon's log where it has ended or the time is up.
        """
        until = time.monotonic() + limit_s
        while (seen := look()) is None:
            if self.process.poll() is not None:
                raise self._error(f"ended without {what}")
            if time.monotonic() > until:
                raise self._error(f"runs, but is without {what} after {limit_s:g} s")
            time.sleep(PAUSE_S)
        return seen

    def _error(self, how: str) -> InfrastructureError:
        tail = self.said()[-TAIL_CHARACTERS:].strip() or "it said nothing"
        return InfrastructureError(f"{self.name} on {self.place.node.name} {how}: {tail}")


@contextmanager
def kept(place: Place, name: str, argv: Sequence[str]) -> Iterator[Daemon]:
    """Keep a daemon running in a place while the block runs; what it says goes to a log in the place's folder."""
    place.path().mkdir(parents=True, exist_ok=True)
    group = place.node.group.below(f"{name}-{PurePath(place.folder).name}").create()
    try:
        with beside(command(place, group, argv), log=place.path(f"{name}.log"), grace_s=0.1) as process:
            try:
                yield Daemon(name=name, place=place, process=process)
            finally:
                # What it has made goes with its place: it need not be asked to clean up.
                with suppress(InfrastructureError):  # what does not end is told, and ended, with the node
                    group.kill()
    finally:
        group.remove()


def command(place: Place, group: Group, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the argv that starts a program in a cgroup and in all namespaces of a place."""
    entry = {
        "cgroups": [str(folder) for folder in group.folders],
        "argv": ["nsenter", "-t", str(place.pid), "--all", "--"],
    }
    return (plain_python(), "-IS", str(AGENT), "--entry", json.dumps(entry), "--", *argv)
