"""`flannel`, `flannel-host-gw`, `flannel-udp`: the real flanneld with a real etcd, one network for each backend.

Each node has a flanneld in its own network stack (host_stack.py), with one of the node's data NICs. flanneld leases a
/24 of a common /16 from the store. Pods are wired as flannel's CNI plug-in does it: by CNI's bridge plug-in, with the
subnet and MTU from the file that flanneld writes.
"""

from __future__ import annotations

import ipaddress
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tare.errors import InfrastructureError
from tare.host.namespaces import index_of, netlink
from tare.host.process import find
from tare.host.signals import uninterrupted
from tare.host.user_namespace import is_real_root
from tare.node import Endpoint, Nic, Node, Pod, Watch
from tare.services import etcd
from tare.services.daemons import Daemon, Place, run_daemon
from tare.wiring.host_stack import control_address, host_stack, in_stack, lend_nic
from tare.wiring.network import Network
from tare.wiring.plug import CNI_VERSION, POD_INTERFACE, carriers, mtu_of, probe_cni, silent, wire_by_cni

OWN: Final = Path("/opt/tare/flannel/flanneld")
NETWORK: Final = ipaddress.IPv4Network("10.217.0.0/16")
"""Shared by every environment: each has its own stacks, and they do not see each other."""
PREFIX: Final = "/tare/flannel"
BRIDGE: Final = "cni0"
SUBNET_FILE: Final = "subnet.env"
BRIDGE_NETFILTER: Final = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
TUN: Final = Path("/dev/net/tun")
RESYNC_S: Final = 86_400
"""How often flanneld checks its rules: nothing else writes rules there, and the checks would disturb other runs."""
LIMIT_S: Final = 20.0
DEVICES: Final[Mapping[str, tuple[str, str]]] = {
    "vxlan": ("flannel.1", "VXLAN of flannel"),
    "udp": ("flannel0", "tun of flannel"),
}
"""The device of each backend that has one, by flanneld's name, and what it carries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A node's lease from flanneld: a subnet whose first address is the bridge's, and the remaining MTU."""

    gateway: ipaddress.IPv4Interface
    mtu: int

    def address(self, number: int) -> ipaddress.IPv4Interface:
        """Return the address of the node's pod with this number."""
        wanted = self.gateway.ip + 1 + number
        if wanted not in self.gateway.network or wanted == self.gateway.network.broadcast_address:
            raise InfrastructureError(f"flannel's subnet {self.gateway.network} has no address for pod {number + 1}")
        return ipaddress.IPv4Interface(f"{wanted}/{self.gateway.network.prefixlen}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node that has joined the network: its flanneld and the lease."""

    daemon: Daemon
    lease: Lease


@dataclass(slots=True, kw_only=True)
class _Net:
    """One environment's network: its store, and by node name the stack, the flanneld and the lease."""

    store: etcd.EtcdStore
    places: Mapping[str, Place]
    daemons: dict[str, Daemon] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    configured: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def configure(self, backend: str) -> None:
        """Wait for the store and write flanneld's configuration to it, once."""
        with self.lock:
            if not self.configured:
                self.store.wait()
                self.store.put(f"{PREFIX}/config", json.dumps(network_config(backend)))
                self.configured = True

    def join(self, name: str, member: Member) -> bool:
        """Record that a node has joined, and return whether it was the last."""
        with self.lock:
            self.members[name] = member
            return len(self.members) == len(self.places)


class Flannel(Network):
    """Let flanneld connect the nodes, and wire pods into their nodes' leases."""

    reaches_outside = False

    def __init__(self, name: str, backend: str, product: str = "") -> None:
        self.name = name
        self.backend = backend
        self.product = product or f"flannel itself: flanneld with the backend {backend} and etcd, without Kubernetes"
        self._net: _Net | None = None

    @property
    def crosses_subnets(self) -> bool:
        return self.backend != "host-gw"

    def probe(self) -> str | None:
        return probe_cni("bridge", "static") or probe_programs(self.backend)

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        # etcd takes time to start; other work is done meanwhile, here and in on_node.
        with ExitStack() as stack:
            stacks = [stack.enter_context(ExitStack()) for _ in nodes]

            def make(number: int) -> Place:
                return stacks[number].enter_context(host_stack(nodes[number], study, self.name))

            with uninterrupted():
                first = make(0)
                store = stack.enter_context(etcd.running(first, control_address(nodes[0], study)))
                with ThreadPoolExecutor(max_workers=4) as pool:
                    others = [pool.submit(make, number) for number in range(1, len(nodes))]
            members = (first, *(other.result() for other in others))
            self._net = _Net(store=store, places={place.node.name: place for place in members})
            try:
                yield
            finally:
                self._net = None

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        net = self._prepared()
        place = net.places[node.name]
        argv = command(flanneld() or "", net.store.url, nic.name, f"{place.folder}/{SUBNET_FILE}")
        with lend_nic(place, nic):
            net.configure(self.backend)
            with run_daemon(place, "flanneld", argv) as net.daemons[node.name]:
                yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        net = self._prepared()
        place, member = net.places[pod.node.name], self._member(net, pod.node)
        address = member.lease.address(pod.number)
        with wire_by_cni(in_stack(pod, place), self.plug_in(member.lease, address)):
            self.guard(place, pod)
            yield Endpoint(
                address=str(address.ip),
                prefix=NETWORK.prefixlen,
                interface=POD_INTERFACE,
                mtu=mtu_of(pod.pid, POD_INTERFACE),
                watches=self._watches(pod, place, nic),
                facts={"flannel's backend": self.backend, "flannel's subnet": str(member.lease.gateway.network)},
                daemons=daemons_of(net.store, member),
            )

    def plug_in(self, lease: Lease, address: ipaddress.IPv4Interface) -> dict[str, Any]:
        """Return the CNI configuration of a pod, as flannel's CNI plug-in delegates it."""
        return {
            "cniVersion": CNI_VERSION,
            "name": f"tare-{self.name}",
            "type": "bridge",
            "bridge": BRIDGE,
            "isGateway": True,
            "ipMasq": False,
            "mtu": lease.mtu,
            "ipam": ipam(lease, address),
        }

    def guard(self, place: Place, pod: Pod) -> None:
        """Install rules in the path of a wired pod; flannel has none of its own."""

    def _watches(self, pod: Pod, place: Place, nic: Nic) -> tuple[Watch, ...]:
        device = DEVICES.get(self.backend)
        return (
            *carriers((pod.pid, POD_INTERFACE, "veth of the pod")),
            *(carriers((place.pid, *device)) if device else ()),
            *carriers((place.pid, nic.name, "data NIC under flannel")),
            *silent(pod.pid),
        )

    def _prepared(self) -> _Net:
        if self._net is None:
            raise InfrastructureError(f"{self.name} was not prepared before its pods were wired")
        return self._net

    def _member(self, net: _Net, node: Node) -> Member:
        """Return a node's flanneld and lease; wait for the lease before the node's first pod."""
        if node.name not in net.members:
            daemon = net.daemons[node.name]
            lease = daemon.wait_for(lambda: _lease(daemon.place), "a subnet", limit_s=LIMIT_S)
            if net.join(node.name, Member(daemon=daemon, lease=lease)):
                self._wait_for_each_other(tuple(net.members.values()))
        return net.members[node.name]

    def _wait_for_each_other(self, members: Sequence[Member]) -> None:
        """Wait until each node has learned of the others; the last node to join waits for all of them."""
        for member in members:
            others = [other.lease for other in members if other is not member]
            has_subnets = self._found(member.daemon, others)
            member.daemon.wait_for(has_subnets, "the subnets of the other nodes", limit_s=LIMIT_S)

    def _found(self, daemon: Daemon, others: Sequence[Lease]) -> Callable[[], bool | None]:
        wanted = {str(lease.gateway.network) for lease in others}
        is_udp = self.backend == "udp"  # its routes are in flanneld itself

        def look() -> bool | None:
            known = parse_subnets(daemon.said()) if is_udp else _routes(daemon.place.pid)
            return True if wanted <= known else None

        return look


def flanneld() -> str | None:
    """Return the path of flanneld, or None."""
    return str(OWN) if OWN.exists() else find("flanneld")


def probe_programs(backend: str) -> str | None:
    """Return what flannel with this backend needs and lacks here, or None."""
    if not is_real_root():
        return "flanneld changes routes and creates devices, which needs root"
    if flanneld() is None:
        return "flanneld is not installed: run tools/networks flannel"
    if not BRIDGE_NETFILTER.exists():
        return f"flanneld needs {BRIDGE_NETFILTER}, which does not exist: modprobe br_netfilter"
    if backend == "udp" and not os.access(TUN, os.R_OK | os.W_OK):
        return f"flannel's udp needs {TUN}, which cannot be opened here: modprobe tun"
    return etcd.probe()


def network_config(backend: str) -> dict[str, Any]:
    """Return the configuration in the store for every flanneld; ports and numbers are flannel's defaults."""
    return {"Network": str(NETWORK), "SubnetLen": 24, "Backend": {"Type": backend}}


def command(path: str, url: str, interface: str, subnet_file: str) -> tuple[str, ...]:
    """Return the argv of flanneld; other nodes see the pods' own addresses (no masquerade)."""
    return (
        path, f"-etcd-endpoints={url}", f"-etcd-prefix={PREFIX}", f"-iface={interface}",
        f"-subnet-file={subnet_file}", "-ip-masq=false", f"-iptables-resync={RESYNC_S}",
    )  # fmt: skip


def ipam(lease: Lease, address: ipaddress.IPv4Interface) -> dict[str, Any]:
    """Return the IPAM configuration of a pod: its address, and the route to the pods of other nodes."""
    return {
        "type": "static",
        "addresses": [{"address": str(address), "gateway": str(lease.gateway.ip)}],
        "routes": [{"dst": str(NETWORK)}],
    }


def read_lease(text: str) -> Lease | None:
    """Parse flanneld's subnet file; return None if it is not a valid one."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return Lease(gateway=ipaddress.IPv4Interface(values["FLANNEL_SUBNET"]), mtu=int(values["FLANNEL_MTU"]))
    except (KeyError, ValueError):
        return None


def parse_subnets(log: str) -> set[str]:
    """Return the subnets of other nodes that a flanneld with the udp backend reports to have learned."""
    reports = (line.partition("Subnet added: ")[2].split() for line in log.splitlines())
    return {words[0] for words in reports if words}


def daemons_of(store: etcd.EtcdStore, member: Member) -> dict[str, int]:
    """Return the processes that a node's part of the network depends on, by name."""
    pids = {"flanneld": member.daemon.process.pid}
    if store.daemon.place.node.name == member.daemon.place.node.name:
        pids["etcd"] = store.daemon.process.pid
    return pids


def _lease(place: Place) -> Lease | None:
    try:
        return read_lease(place.path(SUBNET_FILE).read_text())
    except OSError:
        return None


def _routes(pid: int) -> set[str]:
    with netlink(pid) as route:
        return {f"{entry.get_attr('RTA_DST')}/{entry['dst_len']}" for entry in route.get_routes(family=2)}


def peer_of(pid: int, interface: str, place: Place) -> str:
    """Return the name of the other end of a pod's veth in a stack."""
    with netlink(pid) as route:
        number = route.get_links(index_of(route, interface))[0].get_attr("IFLA_LINK")
    with netlink(place.pid) as route:
        return str(route.get_links(number)[0].get_attr("IFLA_IFNAME"))
