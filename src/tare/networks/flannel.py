"""`flannel`, `flannel-host-gw`, `flannel-udp`: the real flanneld with a real etcd, one network for each backend.

Each node has a flanneld in its own network stack (host_stack.py), with one of the node's data NICs. flanneld leases a
/24 of a common /16 from the store. Pods are wired as flannel's CNI plug-in does it: by CNI's bridge plug-in, with the
subnet and MTU from the file that flanneld writes.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from tare.daemons import certificate, etcd
from tare.daemons.daemons import Daemon, Place, run_daemon
from tare.errors import InfrastructureError
from tare.networks.wiring.host_stack import control_address, in_stack, lend_nic
from tare.networks.wiring.plug import CNI_VERSION, endpoint, probe_cni, wire_by_cni
from tare.networks.wiring.stacked import StackedNetwork
from tare.system.namespaces import index_of, netlink
from tare.system.node import Endpoint, Nic, Node, Pod, Wired
from tare.system.packages import script
from tare.system.process import find
from tare.system.user_namespace import is_real_root

OWN: Final = Path("/opt/tare/flannel/flanneld")
NETWORK: Final = ipaddress.IPv4Network("10.217.0.0/16")
"""Shared by every environment: each has its own stacks, and they do not see each other."""
PREFIX: Final = "/tare/flannel"
BRIDGE: Final = "cni0"
PLAIN: Final = "host-gw"
"""The backend that routes packets as they are."""
TAKEN: Final = "subnet already exists"
"""What flanneld says when another has registered the subnet that it drew."""
DRAWS: Final = 3
SUBNET_FILE: Final = "subnet.env"
BRIDGE_NETFILTER: Final = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
TUN: Final = Path("/dev/net/tun")
RESYNC_S: Final = 86_400
"""How often flanneld checks its rules: nothing else writes rules there, and the checks would disturb other runs."""
LIMIT_S: Final = 60.0
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


class Flannel(StackedNetwork):
    """Let flanneld connect the nodes, and wire pods into their nodes' leases."""

    needs_root = True
    reaches_outside = False
    plug_in_type: ClassVar[Mapping[str, Any]] = {"type": "bridge", "bridge": BRIDGE, "isGateway": True}

    def __init__(self, name: str, backend: str, product: str = "") -> None:
        self.name = name
        self.backend = backend
        self.product = product or f"flannel itself: flanneld with the backend {backend} and etcd, without Kubernetes"
        self.crosses_subnets = backend != PLAIN
        self.without_encapsulation = f"flannel-{PLAIN}" if self.crosses_subnets else ""
        self._store_url = ""
        self._keys: Path | None = None
        self._etcd: Daemon | None = None
        self._flanneld: Daemon | None = None
        self._start: Callable[[], Daemon] | None = None

    def probe(self) -> str | None:
        return probe_cni("bridge", "static") or probe_programs(self.backend)

    @contextmanager
    def prepare(self, node: Node, nodes: Sequence[Node], study: str) -> Iterator[None]:
        self._store_url = etcd.url_of(control_address(nodes[0], study))
        with super().prepare(node, nodes, study):
            if node.name != nodes[0].name:  # a stack has the /run of its node
                self._keys = Path(f"/proc/{nodes[0].pid}/root{self.place.folder}")
            yield

    @contextmanager
    def share(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        address = control_address(nodes[0], study)
        certificate.make(self.place.path(), "/CN=tare", [address])
        with etcd.running(self.place, address) as store:
            store.wait()
            store.put(f"{PREFIX}/config", json.dumps(network_config(self.backend)))
            self._etcd = store.daemon
            yield

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        place = self.place
        if self._keys is not None:
            certificate.copy(self._keys, place.path())
        argv = command(nic.name, place.folder, self._store_url)
        with lend_nic(place, nic), ExitStack() as stack:
            self._start = lambda: stack.enter_context(run_daemon(place, "flanneld", argv))
            self._flanneld = self._start()
            yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        place, lease = self.place, self._lease()
        address = lease.address(pod.number)
        with wire_by_cni(in_stack(pod, place), self.plug_in(lease, address)):
            self.guard(place, pod)
            device = DEVICES.get(self.backend)
            under = (*(((place.pid, *device),) if device else ()), (place.pid, nic.name, "data NIC under flannel"))
            yield endpoint(
                pod, str(address.ip), NETWORK.prefixlen, "veth of the pod", *under,
                facts={"flannel's backend": self.backend, "flannel's subnet": str(lease.gateway.network)},
                daemons=self._daemons(),
            )  # fmt: skip

    @contextmanager
    def join(self, node: Node, pods: Sequence[Wired]) -> Iterator[tuple[Endpoint, ...]]:
        others = {each.endpoint.facts["flannel's subnet"] for each in pods if each.pod.node.name != node.name}
        self._running().wait_for(
            lambda: True if others <= self._subnets() else None, "the subnets of the other nodes", limit_s=LIMIT_S
        )
        with super().join(node, pods) as endpoints:
            yield endpoints

    def plug_in(self, lease: Lease, address: ipaddress.IPv4Interface) -> dict[str, Any]:
        """Return the CNI configuration of a pod, as flannel's CNI plug-in delegates it."""
        return {
            "cniVersion": CNI_VERSION,
            "name": f"tare-{self.name}",
            **self.plug_in_type,
            "ipMasq": False,
            "mtu": lease.mtu,
            "ipam": ipam(lease, address),
        }

    def guard(self, place: Place, pod: Pod) -> None:
        """Install rules in the path of a wired pod; flannel has none of its own."""

    def _running(self) -> Daemon:
        if self._flanneld is None:
            raise InfrastructureError(f"the network {self.name} was not prepared")
        return self._flanneld

    def _lease(self) -> Lease:
        """Return this node's lease; wait for it before the node's first pod.

        Two flannelds may draw the same subnet at once; the one that comes second ends, and is started again.
        """
        for _ in range(DRAWS - 1):
            try:
                return wait_for_lease(self._running())
            except InfrastructureError as error:
                if self._start is None or TAKEN not in error.message:
                    raise
            self._flanneld = self._start()
        return wait_for_lease(self._running())

    def _subnets(self) -> set[str]:
        """Return the subnets of other nodes that this node's flanneld has learned."""
        if self.backend == "udp":  # its routes are in flanneld itself
            return parse_subnets(self._running().said())
        return routes_of(self.place.pid)

    def _daemons(self) -> dict[str, int]:
        """Return the processes that this node's part of the network depends on, by name."""
        daemons = {"flanneld": self._running().process.pid}
        return daemons if self._etcd is None else {**daemons, "etcd": self._etcd.process.pid}


def flanneld() -> str | None:
    """Return the path of flanneld, or None."""
    return str(OWN) if OWN.exists() else find("flanneld")


def probe_programs(backend: str) -> str | None:
    """Return what flannel with this backend needs and lacks here, or None."""
    if not is_real_root():
        return "flanneld changes routes and creates devices, which needs root"
    if flanneld() is None:
        return f"flanneld is not installed: run {script('tools/networks flannel')}"
    if not BRIDGE_NETFILTER.exists():
        return f"flanneld needs {BRIDGE_NETFILTER}, which does not exist: modprobe br_netfilter"
    if backend == "udp" and not os.access(TUN, os.R_OK | os.W_OK):
        return f"flannel's udp needs {TUN}, which cannot be opened here: modprobe tun"
    return etcd.probe()


def network_config(backend: str, network: str = str(NETWORK), *, own_subnets: bool = True) -> dict[str, Any]:
    """Return the configuration of every flanneld; ports and numbers are flannel's defaults.

    With `own_subnets` flannel itself divides the network.
    """
    return {"Network": network, **({"SubnetLen": 24} if own_subnets else {}), "Backend": {"Type": backend}}


def command(interface: str, folder: str, url: str, *, prefix: str = PREFIX, keys: str = "") -> tuple[str, ...]:
    """Return the argv of a flanneld with its files in a folder, whose etcd's certificate is in `keys` ("": there)."""
    return (
        flanneld() or "", f"-etcd-endpoints={url}", f"-etcd-prefix={prefix}",
        *(f"-etcd-{name}={keys or folder}/{file}" for name, file in certificate.FILES.items()),
        *options(interface, folder),
    )  # fmt: skip


def options(interface: str, folder: str) -> tuple[str, ...]:
    """Return what every flanneld is told: other nodes see the pods' own addresses (no masquerade)."""
    return (
        f"-iface={interface}", f"-subnet-file={folder}/{SUBNET_FILE}", "-ip-masq=false",
        f"-iptables-resync={RESYNC_S}", "-healthz-port=0",
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


def wait_for_lease(daemon: Daemon) -> Lease:
    """Wait until a flanneld has written its lease, and return it."""
    return daemon.wait_for(lambda: _read_lease(daemon.place.path(SUBNET_FILE)), "a subnet", limit_s=LIMIT_S)


def _read_lease(file: Path) -> Lease | None:
    return read_lease(file.read_text()) if file.exists() else None


def routes_of(pid: int) -> set[str]:
    """Return the networks to which a process's network namespace has routes."""
    with netlink(pid) as route:
        return {f"{entry.get_attr('RTA_DST')}/{entry['dst_len']}" for entry in route.get_routes(family=2)}


def peer_of(pid: int, interface: str, place: Place) -> str:
    """Return the name of the other end of a pod's veth in a stack."""
    with netlink(pid) as route:
        number = route.get_links(index_of(route, interface))[0].get_attr("IFLA_LINK")
    with netlink(place.pid) as route:
        return str(route.get_links(number)[0].get_attr("IFLA_IFNAME"))
