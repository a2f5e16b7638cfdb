"""What is known of a cluster's pod network, and what it is told from. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

UNKNOWN: Final = "unknown"
NONE: Final = "none"
"""Packets between nodes travel as the pods sent them."""
VXLAN: Final = "VXLAN"
IP_IN_IP: Final = "IP-in-IP"
GENEVE: Final = "Geneve"
GRE: Final = "GRE"
STT: Final = "STT"
USER_UDP: Final = "UDP in user space"
WIREGUARD: Final = "WireGuard"
IPSEC: Final = "IPsec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A container of a daemon set, or of a pod of one, that may be a network's agent on the nodes."""

    workload: str
    namespace: str
    image: str
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """What could be read of a cluster. `unread` names what the user may not read.

    `nodes`, `workloads` (daemon sets, or pods of them), `config_maps` and `ip_pools` are the server's objects. `agents`
    are those of the product whose details are asked for.
    """

    nodes: tuple[Any, ...] = ()
    workloads: tuple[Any, ...] = ()
    config_maps: tuple[Any, ...] = ()
    ip_pools: tuple[Any, ...] = ()
    unread: tuple[str, ...] = ()
    agents: tuple[Agent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedNetwork:
    """The pod network of a cluster.

    `version` is the tag of the agent's image. `encapsulation` is that of packets between nodes, `between_subnets_only`
    whether only packets between nodes of different subnets have it. `mtu` is that of pods. A value is "" or 0 if it is
    not known. `evidence` says how each was told, `unread` names what could not be read.
    """

    product: str = UNKNOWN
    version: str = ""
    encapsulation: str = ""
    between_subnets_only: bool = False
    encryption: str = ""
    mtu: int = 0
    evidence: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return it in one line, for a report."""
        packets = {"": "encapsulation not known", NONE: "not encapsulated"}.get(self.encapsulation, self.encapsulation)
        subnets = " between subnets only" if self.between_subnets_only else ""
        encryption = f", {self.encryption} encryption" if self.encryption else ""
        mtu = f", MTU {self.mtu}" if self.mtu else ""
        return f"{f'{self.product} {self.version}'.strip()} ({packets}{subnets}{encryption}{mtu})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product that can be a cluster's pod network, and what it leaves in a cluster.

    `images` matches the repository of its agent's image, `workloads` the name of its daemon set or pod (a mirror may
    name the image otherwise). `details` returns what its own settings say, with a sentence of evidence for each value.
    `annotations` are beginnings of names of nodes' annotations, `condition` is the reason that it gives for a node's
    condition `NetworkUnavailable`; `config_maps` have its settings; `namespaces` are where its agent usually is.
    """

    name: str
    images: str
    workloads: str
    details: Callable[[ClusterObjects], RecognisedNetwork]
    annotations: tuple[str, ...] = ()
    condition: str = ""
    config_maps: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ("kube-system",)
