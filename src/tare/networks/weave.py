"""`weave`: the data path of Weave Net's fast datapath, rebuilt: a bridge for the pods, Open vSwitch and VXLAN.

Weave Net itself is archived and no longer built. Its router programs the kernel's Open vSwitch itself; here
ovs-vswitchd does, and packets take the same path: pod - veth - bridge - veth - Open vSwitch data path - VXLAN - NIC.
Names, UDP port and MTU are Weave's. Its encryption and its multicast are not rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from tare.daemons.daemons import Place
from tare.networks.bridge import Bridge
from tare.networks.ovs import bridge
from tare.networks.wiring import vswitch
from tare.networks.wiring.host_stack import in_stack, lend_nic
from tare.networks.wiring.plug import endpoint, in_pod_subnet
from tare.networks.wiring.stacked import StackedNetwork
from tare.networks.wiring.veth import make_veth
from tare.system.namespaces import index_of, netlink
from tare.system.node import Endpoint, Nic, Node, Pod

BRIDGE: Final = "weave"
SWITCH: Final = "datapath"
OUTER: Final = "vethwe-bridge"
INNER: Final = "vethwe-datapath"
PORT: Final = 6784
TUNNEL: Final = f"vxlan_sys_{PORT}"
"""The kernel's interface below all tunnels of a port, by Open vSwitch's name."""
OVERHEAD_BYTES: Final = 124
"""The headroom that Weave keeps below the NIC's MTU: its default is 1376 for an MTU of 1500."""


class Weave(StackedNetwork):
    """Wire a pod through a bridge, Open vSwitch and VXLAN."""

    needs_root = True
    name = "weave"
    product = "the data path of Weave Net rebuilt, on Open vSwitch itself: Weave Net is archived"
    reaches_outside = False
    without_encapsulation = Bridge.name

    def __init__(self, datapath: str = vswitch.KERNEL) -> None:
        self._datapath = datapath

    def probe(self) -> str | None:
        return vswitch.probe(self._datapath)

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        place, number = self.place, node.nics.index(nic)
        peers = [peer.nics[number].address for peer in self._nodes if peer.index != node.index]
        with lend_nic(place, nic), vswitch.running(place) as up, ExitStack() as stack:
            up.tell(*bridge(SWITCH, self._datapath))
            stack.callback(up.undo, "del-br", SWITCH)
            make_bridge(place, nic.mtu - OVERHEAD_BYTES)
            up.tell("add-port", SWITCH, INNER)
            for words in tunnels(SWITCH, peers):
                up.tell(*words)
            yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        place = self.place
        pod_nic, outer = replace(in_pod_subnet(nic), mtu=nic.mtu - OVERHEAD_BYTES), f"vethwepl{pod.number}"
        under = [(place.pid, TUNNEL, "VXLAN of Open vSwitch")] if self._datapath == vswitch.KERNEL else []
        with make_veth(in_stack(pod, place), outer, pod_nic):
            with netlink(place.pid) as route:
                route.link("set", index=index_of(route, outer), master=index_of(route, BRIDGE))
            under.append((place.pid, nic.name, "data NIC under the VXLAN"))
            yield endpoint(pod, pod_nic.address, pod_nic.prefix, "veth of the pod", *under)


def tunnels(name: str, peers: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the switch commands that create the tunnels to all other nodes.

    A packet from one tunnel is not sent on through another (`protected`): all nodes have tunnels to all others, so it
    would loop.
    """
    commands: list[tuple[str, ...]] = []
    for index, peer in enumerate(peers):
        tunnel = f"tunnel{index}"
        commands.append(
            ("add-port", name, tunnel, "--", "set", "interface", tunnel, "type=vxlan", f"options:remote_ip={peer}",
             f"options:dst_port={PORT}", "--", "set", "port", tunnel, "protected=true")
        )  # fmt: skip
    return commands


def make_bridge(place: Place, mtu: int) -> None:
    """Create the pods' bridge, and the veth pair from it to the switch; both end with their stack."""
    with netlink(place.pid) as route:
        route.link("add", ifname=BRIDGE, kind="bridge", mtu=mtu)
        master = index_of(route, BRIDGE)
        route.link("add", ifname=OUTER, kind="veth", mtu=mtu, peer={"ifname": INNER, "mtu": mtu})
        route.link("set", index=index_of(route, OUTER), master=master, state="up")
        route.link("set", index=index_of(route, INNER), state="up")
        route.link("set", index=master, state="up")
