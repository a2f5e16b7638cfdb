"""Cilium in a lab's Kubernetes: the real agent and CNI plug-in, by VXLAN or by routes between nodes.

The agent compiles its eBPF programs on each node. Its operator is not run: tare applies the definitions of its objects,
and writes what the operator would, a CiliumNode for each node with the subnet of its pods. An agent takes its
node's internal address, so that is the one of the data NIC.

An agent has the whole node, so a lab has one of the two. One of its programs is attached to the data NIC, as on every
cluster with Cilium: the packets of the other networks pass it, too.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from tare.clusters.pods.lab_networks.model import LabNetwork, divided
from tare.daemons.containerd import PLUG_INS_OF_NODE
from tare.daemons.daemons import Daemon, Place, run_daemon
from tare.daemons.kubernetes import FOLDER, KubernetesDaemons
from tare.errors import MissingTool
from tare.networks import flannel
from tare.system.node import NODE_TUNNEL, Node
from tare.system.packages import install, script
from tare.system.process import find

OWN: Final = Path("/opt/tare/cilium")
AGENT: Final = OWN / "cilium-agent"
PLUG_IN: Final = "cilium-cni"
SCRIPT: Final = Path(__file__).with_name("cilium.sh")
NODES: Final = "/apis/cilium.io/v2/ciliumnodes"
NETWORK: Final = ipaddress.IPv4Network("10.247.0.0/16")
PORT: Final = 8473
"""The UDP port of its VXLAN: flannel's has the usual one."""
BEGUN: Final = "Daemon initialization completed"
LIMIT_S: Final = 60.0


class Cilium(LabNetwork):
    """Cilium between the nodes' first data NICs."""

    subnet = str(NETWORK)
    alone = "cilium"
    mode: ClassVar[tuple[str, ...]]

    def lacks(self) -> str | None:
        """Return what Cilium needs and this machine lacks, or None."""
        if not AGENT.exists():
            return f"Cilium is not installed: run {script('tools/networks cilium')}"
        for program in ("clang", "bpftool"):
            if find(program) is None:
                return f"{program} is not installed: {install(program)}"
        return None

    @contextmanager
    def running(self, nodes: Sequence[Node], kubernetes: KubernetesDaemons) -> Iterator[tuple[Daemon, ...]]:
        """Start an agent on every node, and wait until each has the way to the others' pods."""
        if reason := self.lacks():
            raise MissingTool(f"Cilium cannot be started: {reason}")
        for file in sorted((OWN / "definitions").glob("*.yaml")):
            kubernetes.define(file)
        kubernetes.set_addresses(nodes)
        for node in nodes:
            kubernetes.create(NODES, cilium_node(node))
        with ExitStack() as stack:
            daemons = [stack.enter_context(self._agent(node)) for node in nodes]
            for daemon in daemons:
                others = {subnet_of(node) for node in nodes if node.name != daemon.place.node.name}
                daemon.wait_for(partial(_ready, daemon, others), "the way to the other nodes' pods", limit_s=LIMIT_S)
                self.write(daemon.place.node, {"type": PLUG_IN, "log-file": f"{FOLDER}/cilium/cni.log"}, "")
            yield tuple(daemons)

    @contextmanager
    def _agent(self, node: Node) -> Iterator[Daemon]:
        place = Place(node=node, pid=node.pid, folder=f"{FOLDER}/cilium")
        place.path().mkdir(parents=True, exist_ok=True)
        place.path(SCRIPT.name).write_text(SCRIPT.read_text())  # a node does not see every folder of the machine
        link = Path(f"/proc/{node.pid}/root{PLUG_INS_OF_NODE}") / PLUG_IN
        link.unlink(missing_ok=True)
        link.symlink_to(OWN / PLUG_IN)
        with run_daemon(place, "cilium-agent", agent(node, place.folder, self.mode)) as daemon:
            yield daemon

    def configuration(self, plugin: Mapping[str, Any], subnet: str) -> dict[str, Any]:
        """Return a CNI configuration; Cilium's agent has the addresses."""
        return {"cniVersion": "0.3.1", "name": self.runtime_class, "plugins": [dict(plugin)]}


class Tunnel(Cilium):
    """Cilium's VXLAN."""

    runtime_class = "cilium-vxlan"
    title = "Cilium (VXLAN)"
    devices: ClassVar[Mapping[str, str]] = {"cilium_vxlan": NODE_TUNNEL}
    mode = ("--routing-mode=tunnel", "--tunnel-protocol=vxlan", f"--tunnel-port={PORT}")


class Native(Cilium):
    """Cilium's native routing: nothing is encapsulated."""

    runtime_class = "cilium-native"
    title = "Cilium (native routing: plain routes between nodes)"
    devices: ClassVar[Mapping[str, str]] = {}
    mode = ("--routing-mode=native", "--auto-direct-node-routes=true", f"--ipv4-native-routing-cidr={NETWORK}")


TUNNEL: Final = Tunnel()
NATIVE: Final = Native()


def subnet_of(node: Node) -> str:
    """Return the subnet of a node's pods."""
    return divided(NETWORK, node, whose="Cilium's pods")


def cilium_node(node: Node) -> dict[str, Any]:
    """Return the object of a node: where other nodes send what is for its pods, and their addresses."""
    addresses = [{"type": "InternalIP", "ip": node.nics[0].address}]
    spec = {"addresses": addresses, "ipam": {"podCIDRs": [subnet_of(node)]}}
    return {"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": node.name}, "spec": spec}


def agent(node: Node, folder: str, mode: Sequence[str]) -> tuple[str, ...]:
    """Return the argv of a node's agent, which only connects pods: no services, no proxy, no health checks."""
    off = (
        "enable-ipv6", "enable-ipv4-masquerade", "kube-proxy-replacement", "enable-l7-proxy", "enable-hubble",
        "enable-health-checking", "enable-endpoint-health-checking", "enable-l2-neigh-discovery",
        "install-iptables-rules", "annotate-k8s-node", "auto-create-cilium-node-resource", "cni-exclusive",
    )  # fmt: skip
    return (
        "unshare", "--mount", "sh", f"{folder}/{SCRIPT.name}", folder, "env", f"K8S_NODE_NAME={node.name}", str(AGENT),
        f"--k8s-kubeconfig-path={FOLDER}/kubeconfig", "--identity-allocation-mode=crd", "--ipam=cluster-pool",
        *mode, f"--devices={node.nics[0].name}", *(f"--{each}=false" for each in off),
        f"--bpf-root={folder}/bpf", f"--cgroup-root={folder}/cgroup", f"--state-dir={folder}/state",
        f"--lib-dir={OWN}", "--write-cni-conf-when-ready=",
    )  # fmt: skip


def _ready(daemon: Daemon, subnets: set[str]) -> bool | None:
    return True if BEGUN in daemon.said() and subnets <= flannel.routes_of(daemon.place.pid) else None
