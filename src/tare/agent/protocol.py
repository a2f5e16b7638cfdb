"""Define what the head asks of a node. Requests and answers are frozen values: a node may be another machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from tare.runtimes.containers.deployment import Deployment
from tare.system.counters.raw_readings import NodeReading
from tare.system.node import Node, Pod, Wired
from tare.system.node.surroundings import NodeHas


class Phase(StrEnum):
    """The phases of a deployment, in order. Each is completed on all nodes before the next, and left in reverse."""

    PREPARED = "prepared"
    SHARED = "shared"
    DEPLOYED = "deployed"
    JOINED = "joined"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPods:
    """What launches run in: for each pod the facts of its data path and its containers' limits, and what the node has.

    The facts are those of `tare.system.counters.state`, the limits as in `tare.system.node.limits.stated`.
    """

    state: tuple[Mapping[str, str], ...]
    limits: tuple[tuple[str, ...], ...]
    node: NodeHas


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What launches left in pods: how many processes by name, and which container's memory limit they hit ("": none).

    The limit is named in a sentence.
    """

    processes: Mapping[str, int]
    memory_hit: str = ""


class NodeService(Protocol):
    """What is done on one node. `study` is the name of a `Deployment`; the service holds what belongs to it.

    Errors are those of `tare.errors`. A phase that failed is left like one that was completed.
    """

    @property
    def node(self) -> Node: ...

    @property
    def give_up(self) -> Callable[[], None] | None:
        """Return what ends the wait for a node that is another machine, or None: what is done is done on this one."""

    def import_image(self, tag: str, archive: Path) -> None:
        """Make the node's Docker daemon have an image."""

    def prepare(self, order: Deployment) -> None:
        """Create what must exist on every node before anything is shared."""

    def share(self, study: str) -> None:
        """Create what the network's nodes share; only the first of them is asked."""

    def deploy(self, study: str) -> tuple[Pod, ...]:
        """Make the node's pods with their network and containers."""

    def join(self, study: str, pods: Sequence[Wired]) -> tuple[Pod, ...]:
        """Make the node's pods reach all `pods` of the deployment; return them with their final endpoints.

        If the environment is launched over ssh, an sshd listens in each of them.
        """

    def leave(self, study: str, phase: Phase) -> None:
        """Undo a phase of a deployment; nothing if it was never entered."""

    def wait_until_ready(self, study: str) -> None:
        """Wait until the data interfaces of the pods are running. What runs in the pods now is no launch's."""

    def prefer(self, weight: int) -> None:
        """Set the weight of the node's jobs against other programs of the machine; 0: as without this call."""

    def counters(
        self, study: str, whole: bool = True, machine: bool = True, moment: int = 0, since: int = 0
    ) -> NodeReading:
        """Read the counters of the pods and of the node (`tare.system.counters.reader`).

        Unless `whole`, only what other deployments use as well; `machine` adds what is counted for its whole machine.
        What was read at the same `moment` (not 0) for another deployment is not read again; `since` is that of
        `Moment`, if the reading may use it.
        """

    def described(self, study: str) -> DescribedPods:
        """Return what a launch that has ended has run in: the settings and limits of the pods, and the node."""

    def ended(self, study: str) -> str | None:
        """Return which container or daemon has ended although it should be running, or None."""

    def end_left(self, study: str) -> LeftBehind:
        """Kill what launches left behind in the pods, when none runs; return that, and the limit that they have hit."""

    def signal(self, number: int, programs: Collection[str], key: str = "") -> int:
        """Send a signal to processes of launches on the node; return to how many.

        They are those that run one of these programs, or whose command line contains the key (unless it is "").
        """

    def facts(self) -> Mapping[str, Any]:
        """Return the number of packet filter rules and the first data NIC's offloads."""


CALLS: Final = frozenset(name for name, member in vars(NodeService).items() if callable(member) and name[0] != "_")
"""The calls that a node's service answers."""
