"""OVN-Kubernetes, and Kube-OVN: both have the packets tunnelled by Open vSwitch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tare.kubernetes.pod_networks import model
from tare.kubernetes.pod_networks.model import Agent, Details, Product, Seen
from tare.kubernetes.pod_networks.objects import config_of, mtu_of, setting

CONFIGS: Final = ("ovn-config", "ovnkube-config")
NETWORK_TYPES: Final = {
    "geneve": model.GENEVE,
    "hybrid": model.GENEVE,
    "stt": model.STT,
    "vxlan": model.VXLAN,
    "vlan": model.NONE,
}


def of_ovn_kubernetes(seen: Seen) -> Details:
    """Return what OVN-Kubernetes' settings say."""
    evidence: tuple[str, ...] = ("OVN-Kubernetes' overlay is Geneve",)
    for name in CONFIGS:
        data = config_of(seen, name)
        stated = data.get("mtu") or next((found for text in data.values() if (found := setting(text, "mtu"))), "")
        if mtu := mtu_of(stated):
            return Details(encapsulation=model.GENEVE, mtu=mtu, evidence=(*evidence, f"config map {name}: mtu {mtu}"))
    return Details(encapsulation=model.GENEVE, evidence=evidence)


def of_kube_ovn(seen: Seen) -> Details:
    """Return what the arguments of Kube-OVN's agent say."""
    stated = {key: value for agent in seen.agents for key, value in _options(agent)}
    network, mtu = stated.get("network-type", ""), mtu_of(stated.get("mtu"))
    evidence = [f"the agent has --network-type={network}"] if network else []
    if mtu:
        evidence += [f"the agent has --mtu={mtu}"]
    return Details(encapsulation=NETWORK_TYPES.get(network.lower(), ""), mtu=mtu, evidence=tuple(evidence))


def _options(agent: Agent) -> Iterator[tuple[str, str]]:
    for word in agent.arguments:
        key, equals, value = word.partition("=")
        if equals and key.startswith("--"):
            yield key.removeprefix("--"), value


OVN_KUBERNETES: Final = Product(
    name="OVN-Kubernetes",
    images=re.compile(r"(?:.*/)?ovn-kube(?:rnetes)?(?:-[a-z]+)?|(?:.*/)?ovn-daemonset(?:-[a-z]+)?"),
    workloads=re.compile(r"ovnkube(?:-node)?(?:-\w{5})?"),
    details=of_ovn_kubernetes,
    node_annotations=("k8s.ovn.org/",),
    pod_annotations=("k8s.ovn.org/pod-networks",),
    interfaces=re.compile(r"ovn-k8s-mp\d+"),
    config_maps=CONFIGS,
    namespaces=("ovn-kubernetes", "openshift-ovn-kubernetes"),
)
KUBE_OVN: Final = Product(
    name="Kube-OVN",
    images=re.compile(r"(?:.*/)?kube-ovn"),
    workloads=re.compile(r"kube-ovn-cni(?:-\w{5})?"),
    details=of_kube_ovn,
    node_annotations=("ovn.kubernetes.io/",),
    pod_annotations=("ovn.kubernetes.io/allocated",),
    interfaces=re.compile(r"ovn0"),
    namespaces=("kube-system", "kube-ovn"),
)
