"""Serve this machine as a node: read requests from a stream, one a line, and answer each before the next.

The service undoes everything when its input ends, at SIGTERM or SIGHUP, or when nothing has arrived for `LEASE_S`: then
the head is gone, or cannot reach this node, and what it had made here must not stay. Only the greeting is answered by
this module: the plug-ins, which take most of the start, are imported after it, while the head is busy.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from tare.agent.remote import wire
from tare.agent.remote.machine import Machine, this_machine
from tare.agent.remote.timing import LEASE_S
from tare.errors import InfrastructureError, TareError

if TYPE_CHECKING:
    from tare.agent.remote.machine_answers import Service

PROTOCOL: Final = 1
"""Number of the form of messages; head and node must have the same."""
ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
DONE: Final = "done"
FAILED: Final = "failed"
GREET: Final = "greet"
OWN: Final = (
    "interfaces", "open", "clean", "probe", "unfit", "start_docker", "begin_swarm", "join_swarm", "settle", "missing",
    "write", "drop_caches", "sweep",
)  # fmt: skip
"""What is asked of a machine, whatever is deployed on it."""


class HeadGone(BaseException):
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
        calls = Calls(stack)
        try:
            for line in lines(requests, lease_s, partial=lambda: _write(answers, wire.PARTIAL)):
                _write(answers, wire.dumps(calls.answer(line)))
                with suppress(ImportError):  # the next request answers it
                    calls.service()
        except (HeadGone, BrokenPipeError) as reason:
            print(f"tare node: {reason}", file=sys.stderr)
        finally:
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
    return 0


def lines(requests: int, lease_s: float, *, partial: Callable[[], None]) -> Iterator[bytes]:
    """Yield the lines that arrive; an empty one only renews the lease. Raise `HeadGone` when there will be no more.

    `partial` is called when a part of a line has come and the rest does not follow at once.
    """
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
        if left and not wire.arrives(requests, wire.PARTIAL_S):
            partial()
        if not wire.arrives(requests, until - time.monotonic()):
            raise HeadGone(f"nothing came from the head for {lease_s:g} s")
        more = os.read(requests, 1 << 20)
        if not more:
            raise HeadGone("the head closed the connection")
        left += more


def greet(protocol: int) -> Machine:
    """Return the description of this machine; raise `InfrastructureError` if the head's messages differ."""
    if protocol != PROTOCOL:
        raise InfrastructureError(f"the node speaks version {PROTOCOL} of tare's protocol, the head {protocol}")
    return this_machine()


class Calls:
    """The requests of a head. What they make stays until the stack ends."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._service: Service | None = None

    def service(self) -> Service:
        """Return what answers all requests but the greeting."""
        if self._service is None:
            from tare.agent.remote.machine_answers import Service

            self._service = Service(self._stack)
        return self._service

    def answer(self, line: bytes) -> tuple[int, str, Any]:
        """Return the number of a request with its answer, or with the error that the call raised."""
        number = 0
        try:
            number, name, arguments = wire.loads(line)
            if name == GREET:
                return number, DONE, greet(*arguments)
            if name in OWN:
                return number, DONE, getattr(self.service(), name)(*arguments)
            return number, DONE, self.service().call(name, arguments)
        except TareError as error:
            return number, FAILED, error
        except Exception as error:  # noqa: BLE001  # whatever it is, the head must hear of it and the service must go on
            import traceback

            traceback.print_exc()
            return number, FAILED, InfrastructureError(f"the node's service failed: {type(error).__name__}: {error}")


def _write(answers: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(answers, view) :]


def _ended(number: int, _frame: object) -> None:
    raise HeadGone(f"ended by {signal.Signals(number).name}")
