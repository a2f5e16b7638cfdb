"""`ovs`: a veth into a bridge of Open vSwitch that holds the data NIC, in place of Linux's own bridge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tare.networks import vswitch
from tare.networks.plug import POD_INTERFACE, Wiring, carriers, given_away, mtu_of, silent
from tare.networks.veth import outer_name, paired
from tare.node import Endpoint, Nic, Node, Pod


class Ovs:
    """Wire a pod through a bridge of Open vSwitch in its node."""

    name = "ovs"
    product = "Open vSwitch itself, its bridge with the data NIC as a port"
    wiring = Wiring.OWN
    owns_nic = True
    reaches_outside = True
    pods_share_nic = True

    def __init__(self, datapath: str = vswitch.KERNEL) -> None:
        self._datapath = datapath

    def probe(self) -> str | None:
        return vswitch.missing(self._datapath)

    def refuse(self, runtime: str, nodes: int) -> str | None:
        return None

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        yield

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", "none")

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        name = bridge_name(nic)
        with ExitStack() as stack:
            stack.enter_context(given_away(node, nic))
            up = stack.enter_context(vswitch.running(node))
            up.tell(*bridge(name, self._datapath), "--", "add-port", name, nic.name)
            stack.callback(up.undo, "del-br", name)
            yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        name, outer = bridge_name(nic), outer_name("o", pod, nic)
        with paired(pod, outer, nic), vswitch.running(pod.node) as up, ExitStack() as stack:
            up.tell("add-port", name, outer)
            stack.callback(up.undo, "del-port", name, outer)
            yield Endpoint(
                address=nic.address,
                prefix=nic.prefix,
                interface=POD_INTERFACE,
                mtu=mtu_of(pod.pid, POD_INTERFACE),
                watches=(
                    *carriers((pod.pid, POD_INTERFACE, "veth of the pod"), (pod.node.pid, nic.name, "data NIC")),
                    *silent(pod.pid),
                ),
            )


def bridge_name(nic: Nic) -> str:
    """Return the name of the bridge that holds a NIC."""
    return f"tareov-{nic.name}"[:15]


def bridge(name: str, datapath: str) -> tuple[str, ...]:
    """Return how a switch is told to make a bridge that learns addresses as any switch does."""
    return ("add-br", name, "--", "set", "bridge", name, f"datapath_type={datapath}", "fail_mode=standalone")
