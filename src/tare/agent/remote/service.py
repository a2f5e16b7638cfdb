"""Pass the calls of a node's service on to the machine that is the node."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tare.agent.protocol import CALLS, Phase
from tare.agent.remote import answers
from tare.agent.remote.conversation import Conversation, Unreachable
from tare.agent.remote.timing import AGAIN_S, LEASE_S, PAUSE_S
from tare.runtimes.containers.deployment import Deployment
from tare.system.node import Node

GONE: Final = (
    f"it removes what the run made there {LEASE_S:g} s after it lost the head (not verified); when you reach it again, "
    "run the same command to resume"
)


class RemoteNode:
    """A `NodeService` on another machine: every call of the protocol is asked there, and its answer checked.

    When the connection is lost, calls raise `Unreachable`. The next deployment opens it again, by `reconnect`.
    """

    def __init__(self, node: Node, conversation: Conversation, reconnect: Callable[[], Conversation]) -> None:
        self.node = node
        self.conversation = conversation
        self._reconnect = reconnect
        self._orders: dict[str, Deployment] = {}

    def __getattr__(self, call: str) -> Callable[..., Any]:
        if call not in CALLS:
            raise AttributeError(call)
        return partial(self._ask, call)

    def give_up(self) -> None:
        """End the wait for the machine, also if it was connected again meanwhile."""
        self.conversation.abort()

    def prepare(self, order: Deployment) -> None:
        """Open a lost connection again, and create what must exist before anything is shared."""
        self._be_connected()
        self._orders[order.study] = order
        self._ask("prepare", order)

    def leave(self, study: str, phase: Phase) -> None:
        """Undo a phase; a node that cannot be reached undoes it itself when its lease ends."""
        try:
            self._ask("leave", study, phase)
        except Unreachable:
            return

    def ended(self, study: str) -> str | None:
        """Return what has ended, or that the node cannot be reached."""
        try:
            reason: str | None = self._ask("ended", study)
        except Unreachable as lost:
            return lost.message
        return reason

    def _ask(self, call: str, *arguments: Any) -> Any:
        order = self._orders.get(arguments[0]) if arguments and isinstance(arguments[0], str) else None
        return answers.understood(call, self.conversation.ask(call, *arguments), self.node, order)

    def _be_connected(self) -> None:
        """Open a lost connection again; raise `Unreachable` if that is not possible for `AGAIN_S`."""
        until = time.monotonic() + AGAIN_S
        while not self.conversation.is_open:
            try:
                self.conversation = self._reconnect()
            except Unreachable as lost:
                if time.monotonic() > until:
                    raise Unreachable(lost.message, remedy=GONE) from lost
                time.sleep(PAUSE_S)
