"""Forward the calls of a node's service to the machine that is the node."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tare.agent.geometry import pods_per_node
from tare.agent.order import Order
from tare.agent.protocol import Phase
from tare.agent.remote import answers
from tare.agent.remote.conversation import Conversation, Unreachable
from tare.agent.remote.timing import AGAIN_S, LEASE_S, PAUSE_S
from tare.agent.sides import Side
from tare.daemons.ssh import SshHost
from tare.system.counters.values import CounterValues
from tare.system.node import Endpoint, Node, Wired
from tare.system.node.surroundings import NodeHas

GONE: Final = (
    f"it removes what the run made there {LEASE_S:g} s after it lost the head (not verified); when you reach it again, "
    "run the same command to resume"
)


class RemoteNode:
    """A `NodeService` on another machine.

    When the connection is lost, calls raise `Unreachable`. The next deployment opens it again, by `reconnect`.
    """

    def __init__(self, node: Node, conversation: Conversation, reconnect: Callable[[], Conversation]) -> None:
        self.node = node
        self.conversation = conversation
        self._reconnect = reconnect
        self._orders: dict[str, Order] = {}

    def _ask(self, name: str, *arguments: Any) -> Any:
        return self.conversation.ask(name, *arguments)

    def _of_pods(self, name: str, study: str, *arguments: Any) -> tuple[Any, ...]:
        """Make a call that is answered with a value for each of the node's pods."""
        order = self._orders[study]
        count = pods_per_node(order.environment_on(self.node), order.placement)
        return answers.one_each(self.node, name, self._ask(name, study, *arguments), count)

    def import_image(self, tag: str, archive: Path) -> None:
        self._ask("import_image", tag, archive)

    def prepare(self, order: Order) -> None:
        self._be_connected()
        self._orders[order.study] = order
        self._ask("prepare", order)

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

    def share(self, study: str) -> None:
        self._ask("share", study)

    def deploy(self, study: str) -> tuple[Side, ...]:
        return answers.made_sides(self._orders[study], self.node, self._ask("deploy", study))

    def join(self, study: str, pods: Sequence[Wired]) -> tuple[Endpoint, ...]:
        return self._of_pods("join", study, tuple(pods))

    def listen(self, study: str, hosts: Sequence[SshHost], keys: Path) -> tuple[Side, ...]:
        listening = self._ask("listen", study, tuple(hosts), keys)
        return answers.made_sides(self._orders[study], self.node, listening)

    def leave(self, study: str, phase: Phase) -> None:
        """Undo a phase; a node that cannot be reached undoes it itself when its lease ends."""
        try:
            self._ask("leave", study, phase)
        except Unreachable:
            return

    def wait_for_carriers(self, study: str) -> None:
        self._ask("wait_for_carriers", study)

    def prefer(self, weight: int) -> None:
        self._ask("prefer", weight)

    def counters(self, study: str, whole: bool = True, machine: bool = True, moment: int = 0) -> CounterValues:
        return answers.own_counters(self.node, self._ask("counters", study, whole, machine, moment))

    def state(self, study: str) -> tuple[Mapping[str, str], ...]:
        return self._of_pods("state", study)

    def ended(self, study: str) -> str | None:
        """Return what has ended, or that the node cannot be reached."""
        try:
            reason: str | None = self._ask("ended", study)
        except Unreachable as lost:
            return lost.message
        return reason

    def memory_kills(self, study: str) -> Mapping[str, int]:
        return dict(self._ask("memory_kills", study))

    def memory_hit(self, study: str, before: Mapping[str, int]) -> str | None:
        reason: str | None = self._ask("memory_hit", study, dict(before))
        return reason

    def keep(self, study: str) -> None:
        self._ask("keep", study)

    def end_left(self, study: str) -> Mapping[str, int]:
        return dict(self._ask("end_left", study))

    def signal_first(self, study: str, names: Collection[str], number: int) -> bool:
        return bool(self._ask("signal_first", study, frozenset(names), int(number)))

    def sweep(self) -> tuple[str, ...]:
        return tuple(map(str, self._ask("sweep")))

    def limits(self, study: str) -> tuple[tuple[str, ...], ...]:
        return self._of_pods("limits", study)

    def surroundings(self) -> NodeHas:
        answer: NodeHas = self._ask("surroundings")
        return answer

    def facts(self) -> Mapping[str, Any]:
        return answers.with_gpus(self.node, self._ask("facts"))

    def drop_caches(self) -> None:
        self._ask("drop_caches")

    def missing(self, paths: Sequence[str]) -> tuple[str, ...]:
        return answers.asked_for(self._ask("missing", tuple(paths)), paths)

    def write(self, path: Path, text: str) -> None:
        self._ask("write", path, text)

    def end_named(self, key: str) -> int:
        return int(self._ask("end_named", key))
