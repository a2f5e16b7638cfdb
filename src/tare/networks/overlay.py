"""`overlay`: a Docker Swarm overlay (attachable): real VXLAN between the nodes' daemons, over the first data NIC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tare.daemons.docker import run_docker
from tare.networks.bridge import Bridge
from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import OVERLAY_SUBNETS, Wiring, endpoint, interface_in
from tare.system.node import Endpoint, Nic, Node, Pod
from tare.system.waiting import wait_until

REMOVED_S: Final = 60.0
PAUSE_S: Final = 0.02
FIRST_ADDRESS: Final = 100
MAX_NODES: Final = 255 - FIRST_ADDRESS


class Overlay(Network):
    """Let Docker attach the container to a Swarm overlay."""

    name = "overlay"
    product = "Docker itself: an overlay of a Swarm, over the VXLAN of the kernel"
    wiring = Wiring.DOCKER
    owns_nic = False
    reaches_outside = False
    crosses_subnets = True
    without_encapsulation = Bridge.name
    needs_swarm = True
    create_options: tuple[str, ...] = ("--attachable",)

    def refuse(self, nodes: int) -> str | None:
        if nodes < 2:
            return "an overlay on one node measures no network: use docker-default"
        if nodes > MAX_NODES:
            return f"the overlay's subnet has addresses for {MAX_NODES} nodes, not for {nodes}"
        return None

    @contextmanager
    def prepare(self, node: Node, nodes: Sequence[Node], study: str) -> Iterator[None]:
        try:
            yield
        finally:
            wait_until_released(node, network_name(study))

    @contextmanager
    def share(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        manager, name = nodes[0], network_name(study)
        run_docker(
            manager, "network", "create", "--driver", "overlay", *self.create_options,
            "--label", f"tare.study={study}", "--subnet", f"{overlay_subnet(study)}.0/24", name,
        )  # fmt: skip
        try:
            yield
        finally:
            remove(manager, name)

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        # Docker assigns addresses from the subnet's beginning to containers that request none.
        address = ("--ip", overlay_address(node, study)) if number == 0 else ()
        return ("--network", network_name(study), *address)

    def name_in_docker(self, study: str) -> str:
        return network_name(study)

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        interface, address = interface_in(pod.pid, f"{overlay_subnet(study_of(pod))}.0/24")
        uplink = (pod.node.pid, pod.node.nics[0].name, "data NIC under the VXLAN")
        yield endpoint(pod, address, 24, "overlay", uplink, own=interface)


def remove(node: Node, name: str) -> None:
    """Remove an overlay, which its daemon may refuse for some time after the last container has left."""

    def is_removed() -> bool:
        if has_ended(node):
            return True
        run_docker(node, "network", "rm", name, check=False)
        return not knows(node, name)

    wait_until(is_removed, REMOVED_S, pause_s=PAUSE_S)


def wait_until_released(node: Node, name: str) -> None:
    """Wait until a node's daemon has released an overlay: a Swarm does so some time after it confirms the removal."""
    wait_until(lambda: has_ended(node) or not knows(node, name), REMOVED_S, pause_s=PAUSE_S)


def has_ended(node: Node) -> bool:
    """Return whether a node's first process has ended."""
    return not Path(f"/proc/{node.pid}").exists()


def knows(node: Node, name: str) -> bool:
    """Return whether a node's daemon knows a network."""
    return run_docker(node, "network", "inspect", name, check=False).status == 0


def network_name(study: str) -> str:
    """Return the name of the overlay in the Swarm."""
    return f"tare-{study}"


def study_of(pod: Pod) -> str:
    """Return the study and slot in a pod's name (`tare-STUDY-SLOT-HOST`)."""
    return pod.name.removeprefix("tare-").rsplit("-", 1)[0]


def overlay_subnet(study: str) -> str:
    """Return the first three octets of the subnet: one for each slot, because a study's environments coexist."""
    slot = study.rpartition("-")[2]
    return f"{OVERLAY_SUBNETS}.{int(slot) % 256 if slot.isdecimal() else 0}"


def overlay_address(node: Node, study: str) -> str:
    """Return the address of a node's container; Docker's load balancers take low addresses by default."""
    return f"{overlay_subnet(study)}.{node.index + FIRST_ADDRESS}"
