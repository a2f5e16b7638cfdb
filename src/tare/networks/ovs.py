"""`ovs`: a veth into a bridge of Open vSwitch that holds the data NIC, in place of Linux's own bridge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from tare.networks.wiring import vswitch
from tare.networks.wiring.host_stack import in_stack, lend_nic
from tare.networks.wiring.plug import endpoint, flush_address
from tare.networks.wiring.stacked import StackedNetwork
from tare.networks.wiring.veth import make_veth
from tare.system.node import Endpoint, Nic, Node, Pod

BRIDGE: Final = "ovs0"


class Ovs(StackedNetwork):
    """Wire a pod through a bridge of Open vSwitch in its node."""

    needs_root = True
    name = "ovs"
    product = "Open vSwitch itself, its bridge with the data NIC as a port"

    def __init__(self, datapath: str = vswitch.KERNEL) -> None:
        self._datapath = datapath

    def probe(self) -> str | None:
        return vswitch.probe(self._datapath)

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        place = self.place
        with lend_nic(place, nic), vswitch.running(place) as up, ExitStack() as stack:
            flush_address(place.pid, nic)
            up.tell(*bridge(BRIDGE, self._datapath), "--", "add-port", BRIDGE, nic.name)
            stack.callback(up.undo, "del-br", BRIDGE)
            yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        place = self.place
        up, outer = vswitch.Vswitch(place=place), f"veth{pod.number}"
        with make_veth(in_stack(pod, place), outer, nic), ExitStack() as stack:
            up.tell("add-port", BRIDGE, outer)
            stack.callback(up.undo, "del-port", BRIDGE, outer)
            yield endpoint(pod, nic.address, nic.prefix, "veth of the pod", (place.pid, nic.name, "data NIC"))


def bridge(name: str, datapath: str) -> tuple[str, ...]:
    """Return the switch commands that create a bridge that learns addresses like any switch."""
    return ("add-br", name, "--", "set", "bridge", name, f"datapath_type={datapath}", "fail_mode=standalone")
