"""Define what the head asks of a node. Requests and answers are frozen values: a node may be another machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from tare.agent.order import Order
from tare.agent.sides import Side
from tare.daemons.ssh import SshHost
from tare.system.counters.values import CounterValues
from tare.system.node import Endpoint, Node, Wired
from tare.system.node.surroundings import NodeHas


class Phase(StrEnum):
    """The phases of a deployment, in order. Each is completed on all nodes before the next, and left in reverse."""

    PREPARED = "prepared"
    SHARED = "shared"
    DEPLOYED = "deployed"
    JOINED = "joined"
    LISTENING = "listening"


class NodeService(Protocol):
    """What is done on one node. `study` names a deployment (`Order.study`); what belongs to it is held by the service.

    Errors are those of `tare.errors`. A phase that failed is left like one that was completed.
    """

    @property
    def node(self) -> Node: ...

    def import_image(self, tag: str, archive: Path) -> None:
        """Make the node's Docker daemon have an image."""

    def prepare(self, order: Order) -> None:
        """Create what must exist on every node before anything is shared."""

    def share(self, study: str) -> None:
        """Create what the network's nodes share; only the first of them is asked."""

    def deploy(self, study: str) -> tuple[Side, ...]:
        """Make the node's pods with their network and containers."""

    def join(self, study: str, pods: Sequence[Wired]) -> tuple[Endpoint, ...]:
        """Make the node's pods reach all `pods` of the deployment; return their endpoints, in order."""

    def listen(self, study: str, hosts: Sequence[SshHost], keys: Path) -> tuple[Side, ...]:
        """Start an sshd in each of the node's pods; return them with the processes to spare."""

    def leave(self, study: str, phase: Phase) -> None:
        """Undo a phase of a deployment; nothing if it was never entered."""

    def wait_for_carriers(self, study: str) -> None:
        """Wait until the data interfaces of the pods are running."""

    def prefer(self, weight: int) -> None:
        """Set the weight of the node's jobs against other programs of the machine; 0: as without this call."""

    def counters(self, study: str, whole: bool = True, machine: bool = True, moment: int = 0) -> CounterValues:
        """Return the counters of the pods and of the node (`tare.system.counters.reader`).

        Unless `whole`, only what other deployments use as well; `machine` adds what is counted for its whole machine.
        What was read at the same `moment` (not 0) for another deployment is not read again.
        """

    def state(self, study: str) -> tuple[Mapping[str, str], ...]:
        """Return the facts of each pod's data interface and of what its packets pass (`tare.system.counters.state`)."""

    def ended(self, study: str) -> str | None:
        """Return which container or daemon has ended although it should be running, or None."""

    def memory_kills(self, study: str) -> Mapping[str, int]:
        """Return for each container how many processes the kernel has killed for exceeding its memory limit."""

    def memory_hit(self, study: str, before: Mapping[str, int]) -> str | None:
        """Return a sentence that names the container that has hit its memory limit since `before`, or None."""

    def keep(self, study: str) -> None:
        """Take what runs in the pods now, while no launch does, for no launch's: `end_left` spares it."""

    def end_left(self, study: str) -> Mapping[str, int]:
        """Kill what launches left behind in the pods, when none runs; return how many processes by name."""

    def signal_first(self, study: str, names: Collection[str], number: int) -> bool:
        """Send a signal to the programs of these names in the node's first pod; return whether any was running."""

    def sweep(self) -> tuple[str, ...]:
        """Take back rights of files that programs of images left in the machine's folders; return sentences on them.

        A lab's nodes do nothing: their machine is swept when the lab is down.
        """

    def limits(self, study: str) -> tuple[tuple[str, ...], ...]:
        """Return the limits of the containers of each pod (`tare.system.node.limits.stated`)."""

    def surroundings(self) -> NodeHas:
        """Return the node's namespaces, devices and file systems."""

    def facts(self) -> Mapping[str, Any]:
        """Return the number of packet filter rules and the first data NIC's offloads."""

    def drop_caches(self) -> None:
        """Drop the file caches of the node's machine."""

    def missing(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return those of the paths that the node does not have, or that its user cannot read."""

    def write(self, path: Path, text: str) -> None:
        """Write a file of a launch into the site's folder."""

    def end_named(self, key: str) -> int:
        """Kill the processes of launches whose command line contains a key; return how many there were."""


CALLS: Final = frozenset(name for name, member in vars(NodeService).items() if callable(member) and name[0] != "_")
"""The calls that a node's service answers."""
