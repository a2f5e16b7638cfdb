"""Run daemons that networks need (etcd, flanneld): in a node's namespaces, each in its own cgroup below the node's.

Through that cgroup a daemon is stopped with all its children, and is found if a killed run left it behind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, TypeVar

from tare.errors import InfrastructureError
from tare.system.namespaces import plain_python
from tare.system.node import Node
from tare.system.node.cgroups import Group
from tare.system.process import Popen, beside, run

AGENT: Final = Path(__file__).parents[1] / "mpi" / "launch" / "agent.py"
TAIL_CHARACTERS: Final = 600
PAUSE_S: Final = 0.005

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The namespaces of process `pid` on a node; `folder`, as seen inside them, holds the daemons' files."""

    node: Node
    pid: int
    folder: str

    def path(self, name: str = "") -> Path:
        """Return the path of one of the files on this machine."""
        return Path(f"/proc/{self.pid}/root{self.folder}") / name


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A running daemon; `process` ends when it does."""

    name: str
    place: Place
    process: Popen[str]

    @property
    def log(self) -> Path:
        """Return the file with its output."""
        return self.place.path(f"{self.name}.log")

    def said(self) -> str:
        """Return its output so far; "" if the log is gone."""
        try:
            return self.log.read_text(errors="replace")
        except OSError:
            return ""

    def wait_for(self, look: Callable[[], T | None], what: str, *, limit_s: float) -> T:
        """Call `look` until it returns a value and return that; `what` names it in messages, for instance "an answer".

        Raises `InfrastructureError` with the end of the daemon's log if the daemon ended or the time is up.
        """
        until = time.monotonic() + limit_s
        while (seen := look()) is None:
            if self.process.poll() is not None:
                raise self._error(f"exited without {what}")
            if time.monotonic() > until:
                raise self._error(f"still runs without {what} after {limit_s:g} s")
            time.sleep(PAUSE_S)
        return seen

    def _error(self, how: str) -> InfrastructureError:
        tail = self.said()[-TAIL_CHARACTERS:].strip() or "no output"
        return InfrastructureError(f"{self.name} on {self.place.node.name} {how}: {tail}")


@contextmanager
def run_daemon(place: Place, name: str, argv: Sequence[str]) -> Iterator[Daemon]:
    """Run a daemon in a place while the block runs; its output goes to a log in the place's folder."""
    place.path().mkdir(parents=True, exist_ok=True)
    group = place.node.group.below(f"{name}-{PurePath(place.folder).name}").create()
    try:
        with beside(command(place, group, argv), log=place.path(f"{name}.log"), grace_s=0.1) as process:
            try:
                yield Daemon(name=name, place=place, process=process)
            finally:
                # Its interfaces and files are removed with the namespaces of its place, so it need not clean up itself.
                with suppress(InfrastructureError):  # reported, and killed, with the node
                    group.kill()
    finally:
        group.remove()


def command(place: Place, group: Group, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the argv that starts a program in a cgroup and in all namespaces of a place."""
    entry = {
        "cgroups": [str(folder) for folder in group.folders],
        "argv": ["nsenter", "-t", str(place.pid), "--all", "--"],
    }
    return agent_argv(entry, argv)


def cover(place: Place, own: str, path: str) -> None:
    """Put a file or folder of a place's own in the place of one of the machine's, as the place sees it."""
    argv = ("mount", "--bind", f"{place.folder}/{own}", path)
    run(command(place, place.node.group.leaf, argv), what=f"covering {path} on {place.node.name}")


def agent_argv(entry: Mapping[str, object], argv: Sequence[str]) -> tuple[str, ...]:
    """Return the argv that starts a program through the agent: in an entry's cgroups, on its cores, behind its argv."""
    return (plain_python(), "-IS", str(AGENT), "--entry", json.dumps(entry), "--", *argv)
