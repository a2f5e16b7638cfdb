"""Serve this machine as a node: read requests from a stream, one a line, and answer each before the next.

The service undoes everything when its input ends, at SIGTERM or SIGHUP, or when nothing has arrived for `LEASE_S`: then
the head is gone, or cannot reach this node, and what it had made here must not stay.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tare.errors import InfrastructureError, TareError
from tare.host.paths import made_run_folder
from tare.model import Environment
from tare.node import Node
from tare.node.owners import owner
from tare.node_service import LocalNode, clean, owned, real, site_folder
from tare.node_service.owned import Terms
from tare.node_service.probe import probe
from tare.node_service.protocol import CALLS
from tare.remote import wire
from tare.remote.fit import unfit
from tare.remote.machine import Machine, this_machine
from tare.remote.timing import LEASE_S
from tare.services import docker

PROTOCOL: Final = 1
"""Number of the form of messages; head and node must have the same."""
ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
DONE: Final = "done"
FAILED: Final = "failed"
OWN: Final = ("greet", "open", "clean", "probe", "unfit", "start_docker", "begin_swarm", "join_swarm")
"""What can be asked before a site's node is opened."""


class Gone(BaseException):
    """The head has closed the stream, nothing has arrived during the lease, or a signal ended the service."""


def main() -> int:
    """Serve on the standard streams, which children do not inherit: nothing that they print gets among the answers."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for number in ENDING:
        signal.signal(number, _ended)
    return serve(requests, answers)


def serve(requests: int, answers: int, *, lease_s: float = LEASE_S) -> int:
    """Answer the requests of one descriptor on another until the head is gone; return the exit status."""
    with ExitStack() as stack:
        service = Service(stack)
        try:
            for line in lines(requests, lease_s):
                _write(answers, wire.dumps(_answer(service, line)))
        except (Gone, BrokenPipeError) as reason:
            print(f"tare node: {reason}", file=sys.stderr)
        finally:
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
    return 0


def lines(requests: int, lease_s: float) -> Iterator[bytes]:
    """Yield the lines that arrive; an empty one only renews the lease. Raise `Gone` when there will be no more."""
    left = bytearray()
    until = time.monotonic() + lease_s
    while True:
        line, newline, rest = left.partition(b"\n")
        if newline:
            left = rest
            if line.strip():
                yield bytes(line)
            until = time.monotonic() + lease_s
            continue
        if not select.select([requests], [], [], max(0.0, until - time.monotonic()))[0]:
            raise Gone(f"nothing came from the head for {lease_s:g} s")
        more = os.read(requests, 1 << 20)
        if not more:
            raise Gone("the head closed the connection")
        left += more


class Service:
    """What a head can ask of this machine. What is made stays until the stack ends."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._node: LocalNode | None = None
        self._folder = Path()

    def greet(self, protocol: int) -> Machine:
        """Return the description of this machine; raise `InfrastructureError` if the head's messages differ."""
        if protocol != PROTOCOL:
            raise InfrastructureError(f"the node speaks version {PROTOCOL} of tare's protocol, the head {protocol}")
        return this_machine()

    def open(self, name: str, node: Node, folder: Path, terms: Terms | None = None) -> Node:
        """Begin to serve a node of a site, after removing what ended runs have left; return the node as it is here.

        With `terms` the machine has been given to tare.
        """
        self.clean(name)
        self._stack.enter_context(noted(name, folder))
        self._folder = folder
        self._node = self._stack.enter_context(real.serving(name, node, folder, terms))
        return self._node.node

    def start_docker(self) -> Node:
        """Start a Docker daemon on a machine that has been given to tare; return the node with its socket."""
        node = self._served
        node.node = self._stack.enter_context(owned.with_docker(node.node, self._folder))
        return node.node

    def begin_swarm(self) -> str:
        """Make the node the manager of a Swarm; return the token for the others."""
        return docker.begin_swarm(self._served.node)

    def join_swarm(self, manager_address: str, token: str) -> None:
        """Make the node join a Swarm."""
        docker.join_swarm(self._served.node, manager_address, token)

    @property
    def _served(self) -> LocalNode:
        if self._node is None:
            raise InfrastructureError("no node is open here")
        return self._node

    def clean(self, name: str = "") -> tuple[str, ...]:
        """Remove what runs that have ended left on this machine, and everything of the site `name`; return it."""
        found = (*(real.remove_site(name) if name else ()), *clean.remove(dead_only=True, noted_only=True))
        return tuple(item.what for item in found)

    def probe(self, environment: Environment, given: bool = False) -> str | None:
        """Return what an environment requires and this machine lacks, or None; `given`: it was given to tare."""
        return probe(environment, real=not given)

    def unfit(self, mpi: str, head_version: str, folders: tuple[str, ...]) -> str | None:
        """Return why this machine cannot take part in a job of the head, or None."""
        return unfit(mpi, head_version, folders)

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Make one of the calls of `NodeService`."""
        if name not in CALLS:
            raise InfrastructureError(f"a node's service cannot be asked {name!r}")
        return getattr(self._served, name)(*arguments)


def _answer(service: Service, line: bytes) -> tuple[int, str, Any]:
    """Return the number of a request with its answer, or with the error that the call raised."""
    number = 0
    try:
        number, name, arguments = wire.loads(line)
        if name in OWN:
            return number, DONE, getattr(service, name)(*arguments)
        return number, DONE, service.call(name, arguments)
    except TareError as error:
        return number, FAILED, error
    except Exception as error:  # noqa: BLE001  # whatever it is, the head must hear of it and the service must go on
        traceback.print_exc()
        return number, FAILED, InfrastructureError(f"the node's service failed: {type(error).__name__}: {error}")


@contextmanager
def noted(name: str, folder: Path) -> Iterator[None]:
    """Record who serves a site here, by which others recognise what a killed service leaves."""
    place = made_run_folder() / f"{name}-node{os.getpid()}"
    place.mkdir(mode=0o700)
    (place / "owner.json").write_text(json.dumps({"lab": name, **owner(), site_folder.KEY: str(folder)}))
    try:
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _write(answers: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(answers, view) :]


def _ended(number: int, _frame: object) -> None:
    raise Gone(f"ended by {signal.Signals(number).name}")
