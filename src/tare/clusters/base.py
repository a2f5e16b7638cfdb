"""Define the base class of every cluster, and what a cluster that is up offers."""

from __future__ import annotations

import math
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tare.agent.probe import probe
from tare.agent.protocol import NodeService
from tare.clusters.needs import Needs
from tare.model import Environment, LabSpec, Placement
from tare.model.topology import Topology
from tare.mpi.launch.job import Inside
from tare.system.node import Node, Pod, page_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocated:
    """The allocation of a batch system that a site is in; `ends_unix_s` is None without a time limit."""

    label: str
    nodes: tuple[str, ...]
    ends_unix_s: float | None = None

    def left_s(self) -> float:
        """Return how much time is left, in seconds."""
        return math.inf if self.ends_unix_s is None else self.ends_unix_s - time.time()


class Site(Protocol):
    """A cluster that is up, with its head (where launchers start) and a control network that stays up."""

    @property
    def name(self) -> str: ...
    @property
    def nodes(self) -> tuple[Node, ...]: ...
    @property
    def daemon_nodes(self) -> tuple[Node, ...]:
        """Return the hosts that run daemons, in the order of `nodes`.

        They are separate hosts if a daemon changes a host's cost.
        """
        ...

    def service(self, node: Node) -> NodeService:
        """Return the service of one of `nodes` or `daemon_nodes`, the same at every call."""
        ...

    @property
    def allocation(self) -> Allocated | None:
        """Return the allocation that its nodes are from, or None."""
        ...

    @property
    def head(self) -> tuple[str, ...]:
        """Return the argv prefix that starts a launcher on the head."""
        ...

    def reach(self, node: Node) -> tuple[str, ...]:
        """Return the argv prefix that runs one string with a node's shell; empty for a node of this machine."""
        ...

    @property
    def control_subnet(self) -> str: ...
    @property
    def control_interface(self) -> str:
        """Return the name of the interface on the control network, on the head and on the nodes."""
        ...

    @property
    def folder(self) -> Path:
        """Return the folder for launch maps and logs of this run."""
        ...

    def show(self, path: Path, nodes: Sequence[Node]) -> None:
        """Make nodes see a file that the head has written into the folder."""

    def drop_caches(self) -> None:
        """Drop the file caches of every machine."""

    def sweep(self) -> Sequence[str]:
        """Take back rights of files that programs of images left on other machines; return sentences on them."""

    def launching(self, study: str, pods: Sequence[Pod]) -> AbstractContextManager[Inside | None]:
        """Keep up how launchers start in the first pod of a deployment; None: they start on the head."""

    def described(self) -> Mapping[str, Any]:
        """Return the facts of the cluster itself, once pods are up; `machine` is a line in place of the head's."""

    def listen(self) -> socket.socket | None:
        """Return a socket bound to an address of the head that all pods can reach, or None if there is none."""

    def adopt(self, pid: int) -> None:
        """Account a launcher, and all processes that it starts from now on, to the study."""

    def pids(self) -> set[int]:
        """Return all processes of the study, including the cluster's own; empty if unknown."""

    def usage_s(self) -> float:
        """Return the CPU time of all processes of the study, including daemons; 0 if unknown."""

    def carries(self, nic: int, mtu: int) -> AbstractContextManager[None]:
        """Make the network between the nodes' NICs of this number carry frames of an MTU."""

    def settle(self) -> None:
        """Put the nodes into the state that trials expect, after pods were made and before the first trial."""

    def check_held(self) -> None:
        """Raise `LabEnded` if what holds a node or a network of the cluster was ended by something else."""


class SiteDefaults:
    """What sites have in common whose nodes are as they are, and whose launchers start on the head."""

    __slots__ = ()

    def reach(self, node: Node) -> tuple[str, ...]:
        return ()

    def show(self, path: Path, nodes: Sequence[Node]) -> None:
        pass

    def drop_caches(self) -> None:
        page_cache.drop()

    def sweep(self) -> Sequence[str]:
        return ()

    def launching(self, study: str, pods: Sequence[Pod]) -> AbstractContextManager[Inside | None]:
        return nullcontext(None)

    def described(self) -> Mapping[str, Any]:
        return {}

    def adopt(self, pid: int) -> None:
        pass

    def usage_s(self) -> float:
        return 0.0

    def carries(self, nic: int, mtu: int) -> AbstractContextManager[None]:
        return nullcontext()

    def settle(self) -> None:
        pass

    def check_held(self) -> None:
        pass


class Cluster(ABC):
    """A cluster: a member sets `name` and what differs from the defaults below, and brings nodes up in `open`.

    `probe` is read-only, and `open` undoes everything on exit.
    """

    name: str

    emulated: bool = False
    """Whether its nodes are not machines, so that its figures are no cluster's."""

    @property
    def location(self) -> str:
        """Return the first words of a sentence about results: where they were measured."""
        return f"On this {self.name} cluster"

    needs_root: bool = False
    """Whether an ordinary user must become root of a user namespace to bring it up."""
    account: str = "root of its node"
    """As whom a study's programs run without a container, as `tare plan` says it."""
    is_real: bool = False
    """Whether its nodes are machines as they are, on which nothing is made for a study but containers."""
    is_here: bool = False
    """Whether its nodes run on this machine's kernel."""
    takes_hosts: bool = False
    """Whether a study lists its nodes, as `hosts`."""
    runs_jobs: bool = False
    """Whether its nodes are those of a job of a batch system."""

    @property
    def in_job(self) -> bool:
        """Return whether this process is inside a job of its batch system; False where there is none."""
        return False

    def makes_pods(self, spec: LabSpec) -> bool:
        """Return whether it makes pods itself, so that no runtime of a node's has containers on it."""
        return False

    def takes_turns(self, spec: LabSpec) -> bool:
        """Return whether launches of kernels can take turns: their ranks reach a socket of the head."""
        return not self.makes_pods(spec)

    is_fake: bool = False
    """Whether there are no nodes: a fake is combined with other fakes only, in tests."""

    def probe(self) -> str | None:
        """Return why the cluster cannot be used here, or None."""
        return None

    def refuse(self, spec: LabSpec, environment: Environment, placement: Placement) -> str | None:
        """Return why an environment in a placement cannot run on this cluster, or None; nothing is read from disk."""
        return None

    def apart(self, spec: LabSpec, environments: Sequence[Environment]) -> Mapping[str, str]:
        """Return by name the environments that cannot be in one study with earlier ones, each with the reason."""
        return {}

    def lacks(self, spec: LabSpec, environment: Environment) -> str | None:
        """Return what an environment requires and the nodes' machines lack, or None."""
        return probe(environment, real=self.is_real)

    @abstractmethod
    def topology(self, spec: LabSpec) -> Topology:
        """Return the cores of each node, without making any nodes."""

    def topology_of(self, spec: LabSpec, nodes: int) -> Topology:
        """Return the cores of each node for placements of so many nodes."""
        return self.topology(spec)

    @abstractmethod
    def open(self, study: str, spec: LabSpec, needs: Needs) -> AbstractContextManager[Site]:
        """Bring up the cluster for a study."""
