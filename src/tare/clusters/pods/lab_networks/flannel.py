"""flannel in a lab's Kubernetes: by VXLAN, as the usual network, and by routes (`host-gw`), beside it.

Both are the real flanneld. The usual one takes each node's subnet from the API server (`kube-subnet-mgr`). There is one
such subnet a node, so the second leases its own from the etcd of the control plane, as flannel does without Kubernetes.
flannel's CNI plug-in is not to be had; pods are wired by CNI's bridge plug-in, with the subnet and MTU that flanneld
writes, as that plug-in delegates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, ClassVar, Final

from tare.clusters.pods.lab_networks.model import LabNetwork
from tare.daemons.daemons import Daemon, Place, run_daemon
from tare.daemons.kubernetes import FOLDER, PODS, KubernetesDaemons
from tare.networks import flannel
from tare.networks.flannel import Lease
from tare.system.node import NODE_BRIDGE, NODE_TUNNEL, Node

PREFIX: Final = "/tare/pods"
LIMIT_S: Final = 30.0
DEVICE: Final = flannel.DEVICES["vxlan"][0]


class Vxlan(LabNetwork):
    """flannel's VXLAN, the usual network of a lab's pods."""

    runtime_class = ""
    title = "Flannel (VXLAN)"
    subnet = PODS
    bridge = flannel.BRIDGE
    devices: ClassVar[Mapping[str, str]] = {flannel.BRIDGE: NODE_BRIDGE, DEVICE: NODE_TUNNEL}

    @contextmanager
    def running(self, nodes: Sequence[Node], kubernetes: KubernetesDaemons) -> Iterator[tuple[Daemon, ...]]:
        """Start a flanneld on every node once the API server has given the node a subnet."""
        kubernetes.wait_for_subnets()
        with ExitStack() as stack:
            daemons = []
            for node in nodes:
                place = Place(node=node, pid=node.pid, folder=f"{FOLDER}/flannel")
                place.path().mkdir(parents=True, exist_ok=True)
                told = flannel.network_config("vxlan", self.subnet, own_subnets=False)
                place.path("network.json").write_text(json.dumps(told))
                argv = with_kubernetes(node, place.folder)
                daemons.append(stack.enter_context(run_daemon(place, "flanneld", argv)))
            for daemon in daemons:
                _write(self, self.bridge, daemon)
            yield tuple(daemons)


class HostGateway(LabNetwork):
    """flannel's host-gw: the same bridge and routing, and nothing is encapsulated."""

    runtime_class = "host-gw"
    title = "Flannel (host-gw: plain routes between nodes, its subnets leased from etcd)"
    subnet = "10.245.0.0/16"
    bridge = "cni-host-gw"
    devices: ClassVar[Mapping[str, str]] = {bridge: NODE_BRIDGE}

    @contextmanager
    def running(self, nodes: Sequence[Node], kubernetes: KubernetesDaemons) -> Iterator[tuple[Daemon, ...]]:
        """Start a flanneld on every node; two that drew the same subnet at once would be in each other's way."""
        store = kubernetes.store
        store.put(f"{PREFIX}/config", json.dumps(flannel.network_config(flannel.PLAIN, self.subnet)))
        with ExitStack() as stack:
            daemons, leases = [], []
            for node in nodes:
                place = Place(node=node, pid=node.pid, folder=f"{FOLDER}/flannel-{flannel.PLAIN}")
                argv = with_etcd(node, place.folder, store.url)
                daemon = stack.enter_context(run_daemon(place, "flanneld", argv))
                leases.append(_write(self, self.bridge, daemon))
                daemons.append(daemon)
            for daemon, lease in zip(daemons, leases, strict=True):
                others = {str(each.gateway.network) for each in leases if each is not lease}
                came = partial(_has_routes, daemon.place.pid, others)
                daemon.wait_for(came, "the routes to the other nodes", limit_s=LIMIT_S)
            yield tuple(daemons)


VXLAN: Final = Vxlan()
PLAIN: Final = HostGateway()


def with_kubernetes(node: Node, folder: str) -> tuple[str, ...]:
    """Return the argv of a node's flanneld that takes its subnet from the API server."""
    return (
        "env", f"NODE_NAME={node.name}", flannel.flanneld() or "", "-kube-subnet-mgr",
        f"-kubeconfig-file={FOLDER}/kubeconfig", f"-net-config-path={folder}/network.json",
        *flannel.options(node.nics[0].name, folder),
    )  # fmt: skip


def with_etcd(node: Node, folder: str, url: str) -> tuple[str, ...]:
    """Return the argv of a node's second flanneld, which takes its subnet from an etcd.

    It leaves the packet filter alone: both would write the same chain, each without the other's rules.
    """
    argv = flannel.command(node.nics[0].name, folder, url, prefix=PREFIX, keys=FOLDER)
    return (*argv, "-iptables-forward-rules=false")


def plugin(bridge: str, mtu: int) -> Mapping[str, Any]:
    """Return what flannel's CNI plug-in delegates to the bridge plug-in."""
    return {"type": "bridge", "bridge": bridge, "isGateway": True, "hairpinMode": True, "mtu": mtu}


def _write(network: LabNetwork, bridge: str, daemon: Daemon) -> Lease:
    """Write the configuration of a node's pods once flanneld has told their subnet, and return the lease."""
    lease = flannel.wait_for_lease(daemon)
    network.write(daemon.place.node, plugin(bridge, lease.mtu), str(lease.gateway.network))
    return lease


def _has_routes(pid: int, subnets: set[str]) -> bool | None:
    return True if subnets <= flannel.routes_of(pid) else None
