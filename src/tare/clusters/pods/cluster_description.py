"""Say in words which Kubernetes a study ran on, and which network its pods have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tare.agent.remote.machine import Interface
from tare.clusters.pods.api import Api
from tare.clusters.pods.nodes import KubernetesMachine
from tare.clusters.pods.pod_networks import RecognisedNetwork
from tare.clusters.pods.pod_networks.look import pod_network
from tare.errors import TareError

TUNNELS: Final = ("vxlan", "geneve", "ipip", "wireguard", "gre")
"""Kinds of interfaces that put packets into others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceView:
    """What a service saw: of its pod, or of its node if the pod is on the node's network (`of_node`).

    `interface` and `mtu` are of the interface that messages use, `others` all that have an address. `runtime_class` is
    the pod's.
    """

    node: str
    of_node: bool
    interface: str
    mtu: int
    others: tuple[Interface, ...] = ()
    runtime_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A Kubernetes: version and URL of its API server, the context, the nodes of a study, and the pod network.

    `titles` say what the network of a runtime class is, where that is known: a cluster's objects do not tell it.
    `policy` says whether the study's network policy is in force ("": it has none).
    """

    version: str = ""
    server: str = ""
    context: str = ""
    machines: tuple[KubernetesMachine, ...] = ()
    network: RecognisedNetwork = field(default_factory=RecognisedNetwork)
    titles: Mapping[str, str] = field(default_factory=dict)
    policy: str = ""

    @staticmethod
    def read(
        api: Api, context: str, machines: Sequence[KubernetesMachine], titles: Mapping[str, str] | None = None
    ) -> Description:
        """Return the description of a Kubernetes; what the user may not read stays out."""
        version, network = "", RecognisedNetwork()
        with suppress(TareError):
            version = str(api.ask("GET", "/version").get("gitVersion", ""))
            network = pod_network(api)
        return Description(
            version=version, server=api.host, context=context, machines=tuple(machines), network=network,
            titles=titles or {},
        )  # fmt: skip

    def facts(self, seen: Sequence[ServiceView]) -> dict[str, Any]:
        """Return the facts that a study records, with a line for the header of its report."""
        network = {"product": self.network.title, **network_of(seen)}
        of_classes = self._of_classes(seen)
        nodes = {each.name: dict(each.facts) for each in self.machines}
        return {
            "machine": self._line(network, of_classes),
            "Kubernetes": {
                "version": self.version, "server": self.server, "context": self.context, "nodes": nodes,
                "network": network, "network told by": list(self.network.evidence),
                "not readable": list(self.network.unread),
                **({"networks of runtime classes": of_classes} if of_classes else {}),
                **({"network policy": self.policy} if self.policy else {}),
            },
        }  # fmt: skip

    def _of_classes(self, seen: Sequence[ServiceView]) -> dict[str, str]:
        """Return what is known of the network of each runtime class, with what was seen in its pods."""
        found = {}
        for name in sorted({each.runtime_class for each in seen if not each.of_node} - {""}):
            pods = network_of([each for each in seen if each.runtime_class == name and not each.of_node], name)
            found[name] = ", ".join((self.titles.get(name) or "a network that is not known", *pods.values()))
        return found

    def _line(self, network: Mapping[str, str], of_classes: Mapping[str, str]) -> str:
        names = ", ".join(each.name for each in self.machines[:4]) + (", ..." if len(self.machines) > 4 else "")
        told = {
            name: each.facts.get(name, "") for each in self.machines[:1] for name in ("container runtime", "kernel")
        }
        usual = "pods" in network or not of_classes  # else no pod of the study has the usual network
        parts = (
            f"Kubernetes {self.version}".strip(),
            f"nodes {names}",
            told.get("container runtime", ""),
            f"Linux {told['kernel']}" if told.get("kernel") else "",
            f"pods' network: {', '.join(network.values())}" if network and usual else "",
            *(f"with runtime class {name}: {what}" for name, what in of_classes.items()),
            self.policy,
        )
        return "; ".join(part for part in parts if part)


def network_of(seen: Sequence[ServiceView], runtime_class: str = "") -> dict[str, str]:
    """Return what the interfaces that were seen tell of the network of pods with a runtime class."""
    found: dict[str, str] = {}
    pods = {(each.interface, each.mtu) for each in seen if not each.of_node and each.runtime_class == runtime_class}
    if pods:
        found["pods"] = " or ".join(f"{name} MTU {mtu}" for name, mtu in sorted(pods))
    nodes = {(each.interface, each.mtu) for each in seen if each.of_node}
    if nodes:
        found["nodes"] = "over " + " or ".join(f"{name} MTU {mtu}" for name, mtu in sorted(nodes))
        tunnels = {(other.name, other.kind) for each in seen if each.of_node for other in each.others}
        named = sorted(f"{name} ({kind})" for name, kind in tunnels if kind in TUNNELS)
        found["tunnel"] = f"through {' or '.join(named)}" if named else "without a tunnel on the nodes"
    return found
