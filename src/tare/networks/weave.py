"""`weave`: the data path of Weave Net's fast datapath, rebuilt: a bridge for the pods, Open vSwitch and VXLAN.

Weave Net itself is archived and no longer built. Its router programs the kernel's Open vSwitch itself; here
ovs-vswitchd does, and packets take the same way: pod - veth - bridge - veth - data path of Open vSwitch - VXLAN - NIC.
UDP port and MTU are Weave's. Its encryption and its multicast are not rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.namespaces import index_of, netlink
from tare.networks import vswitch
from tare.networks.ovs import bridge
from tare.networks.plug import POD_INTERFACE, Wiring, carriers, in_pod_subnet, mtu_of, silent
from tare.networks.veth import outer_name, paired
from tare.node import Endpoint, Nic, Node, Pod

PORT: Final = 6784
"""Of Weave's VXLAN; each environment has one of its own, so that its interface counts its packets only."""
OVERHEAD_BYTES: Final = 124
"""What Weave keeps free of the NIC's MTU: its default is 1376 where that is 1500."""


class Weave:
    """Wire a pod through a bridge, Open vSwitch and VXLAN."""

    name = "weave"
    product = "the data path of Weave Net rebuilt, on Open vSwitch itself: Weave Net is archived"
    wiring = Wiring.OWN
    owns_nic = True
    reaches_outside = False
    pods_share_nic = True

    def __init__(self, datapath: str = vswitch.KERNEL) -> None:
        self._datapath = datapath
        self._nodes: tuple[Node, ...] = ()

    def probe(self) -> str | None:
        return vswitch.missing(self._datapath)

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        self._nodes = tuple(nodes)
        yield

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", "none")

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        name, number = switch_name(nic), number_of(node, nic)
        peers = [peer.nics[number].address for peer in self._nodes if peer.index != node.index]
        with ExitStack() as stack:
            up = stack.enter_context(vswitch.running(node))
            up.tell(*bridge(name, self._datapath))
            stack.callback(up.undo, "del-br", name)
            stack.enter_context(_bridge(node, nic))
            up.tell("add-port", name, inner_name(nic))
            for words in tunnels(name, number, peers):
                up.tell(*words)
            yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        own, outer = replace(in_pod_subnet(nic), mtu=nic.mtu - OVERHEAD_BYTES), outer_name("w", pod, nic)
        tunnel = f"vxlan_sys_{port_of(number_of(pod.node, nic))}"
        under = ((pod.node.pid, tunnel, "VXLAN of Open vSwitch"),) if self._datapath == vswitch.KERNEL else ()
        with paired(pod, outer, own):
            with netlink(pod.node.pid) as route:
                master = index_of(route, bridge_name(nic))
                route.link("set", index=index_of(route, outer), master=master)
            yield Endpoint(
                address=own.address,
                prefix=own.prefix,
                interface=POD_INTERFACE,
                mtu=mtu_of(pod.pid, POD_INTERFACE),
                watches=(
                    *carriers(
                        (pod.pid, POD_INTERFACE, "veth of the pod"),
                        *under,
                        (pod.node.pid, nic.name, "data NIC under the VXLAN"),
                    ),
                    *silent(pod.pid),
                ),
            )


def bridge_name(nic: Nic) -> str:
    """Return the name of the bridge that pods are ports of; Weave calls its own `weave`."""
    return f"tarewb-{nic.name}"[:15]


def switch_name(nic: Nic) -> str:
    """Return the name of the bridge of Open vSwitch; Weave calls its own `datapath`."""
    return f"tarews-{nic.name}"[:15]


def inner_name(nic: Nic) -> str:
    """Return the name of the end at the switch of the pair between bridge and switch."""
    return f"tarewd-{nic.name}"[:15]


def number_of(node: Node, nic: Nic) -> int:
    """Return the number of a NIC on its node; that of a pod has another address, and the same name."""
    return next(number for number, each in enumerate(node.nics) if each.name == nic.name)


def port_of(number: int) -> int:
    """Return the UDP port of the VXLAN over a NIC; the first that an environment can own has Weave's."""
    return PORT + max(0, number - 1)


def tunnels(name: str, number: int, peers: Sequence[str]) -> list[tuple[str, ...]]:
    """Return how a switch is told of the tunnels to all other nodes.

    What came by one tunnel is not sent on by another (`protected`): all nodes have tunnels to all, and it would circle.
    """
    told: list[tuple[str, ...]] = []
    for index, peer in enumerate(peers):
        tunnel = f"tarev{number}-{index}"
        options = (f"options:remote_ip={peer}", f"options:key={number}", f"options:dst_port={port_of(number)}")
        told.append(
            ("add-port", name, tunnel, "--", "set", "interface", tunnel, "type=vxlan", *options,
             "--", "set", "port", tunnel, "protected=true")
        )  # fmt: skip
    return told


@contextmanager
def _bridge(node: Node, nic: Nic) -> Iterator[None]:
    """Keep the bridge of the pods, and the pair that leads from it to the switch."""
    name, inner, mtu = bridge_name(nic), inner_name(nic), nic.mtu - OVERHEAD_BYTES
    outer = f"tarewe-{nic.name}"[:15]
    with netlink(node.pid) as route:
        route.link("add", ifname=name, kind="bridge", mtu=mtu)
        master = index_of(route, name)
        route.link("add", ifname=outer, kind="veth", mtu=mtu, peer={"ifname": inner, "mtu": mtu})
        route.link("set", index=index_of(route, outer), master=master, state="up")
        route.link("set", index=index_of(route, inner), state="up")
        route.link("set", index=master, state="up")
    try:
        yield
    finally:
        if Path(f"/proc/{node.pid}").exists():
            with netlink(node.pid) as route:
                for index in (index for each in (outer, name) for index in route.link_lookup(ifname=each)):
                    route.link("del", index=index)
