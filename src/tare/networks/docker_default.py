"""`docker-default`: Docker's own NAT bridge `docker0`. It is private to a node, so it supports one node only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tare.errors import InfrastructureError
from tare.networks.wiring.network import Network
from tare.networks.wiring.plug import POD_INTERFACE, Wiring, endpoint, interfaces_in
from tare.system.node import Endpoint, Nic, Node, Pod


class DockerDefault(Network):
    """Use the network that Docker gives a container by default."""

    name = "docker-default"
    product = "Docker itself: the bridge docker0 and its address translation"
    wiring = Wiring.DOCKER
    owns_nic = False
    reaches_outside = False
    pods_share_nic = False

    def probe_machine(self) -> str | None:
        return "on Docker's default bridge a container cannot reach the MPI's launcher on 127.0.0.1: use docker+host"

    def refuse(self, nodes: int) -> str | None:
        if nodes > 1:
            return "Docker's default bridge is private to one node: containers of two nodes cannot reach each other"
        return None

    def container_options(self, node: Node, study: str, number: int = 0) -> tuple[str, ...]:
        return ("--network", "bridge")

    def name_in_docker(self, study: str) -> str:
        return "bridge"

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        address, prefix = interfaces_in(pod.pid).get(POD_INTERFACE, ("", 0))
        if not address:
            raise InfrastructureError(f"Docker gave the container {pod.container} no address")
        yield endpoint(pod, address, prefix, "veth of the container", only=False)
