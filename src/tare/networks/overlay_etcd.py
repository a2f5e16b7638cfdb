"""`overlay-etcd`: Docker's overlay before Swarm, as in papers/004: its daemons coordinate through a key-value store.

`--cluster-store` and `--cluster-advertise` were removed in Docker 23. With these options the daemons of a study cannot
be in a Swarm, so `overlay` and `overlay-etcd` need separate studies (tare.study.plan.composition.apart).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tare.daemons import etcd
from tare.daemons.docker import run_docker
from tare.daemons.docker_api import daemon
from tare.errors import InfrastructureError
from tare.networks.overlay import (
    PAUSE_S,
    Overlay,
    has_ended,
    knows,
    network_name,
    overlay_address,
    overlay_subnet,
    study_of,
)
from tare.networks.wiring.plug import answers, interface_in
from tare.system.node import Endpoint, Nic, Node, Pod
from tare.system.process import find, run
from tare.system.waiting import wait_until

LAST_WITH_STORE: Final = 20
SEEN_S: Final = 60.0
FIRST_S: Final = 3.0
REACHED_S: Final = 60.0
GATEWAY: Final = "docker_gwbridge"
"""The bridge over which an overlay's containers reach outside networks."""


class OverlayEtcd(Overlay):
    """Let Docker attach the container to an overlay whose state is in etcd."""

    name = "overlay-etcd"
    product = "Docker itself: its overlay before Swarm, with etcd as the key-value store"
    crosses_subnets = False
    needs_swarm = False
    needs_store = True
    create_options = ()

    def __init__(self) -> None:
        self._network = ""
        self._others: tuple[str, ...] = ()

    def probe(self) -> str | None:
        return etcd.probe() or probe_version(_version())

    @contextmanager
    def prepare(self, node: Node, nodes: Sequence[Node], study: str) -> Iterator[None]:
        self._network = network_name(study)
        self._others = tuple(overlay_address(each, study) for each in nodes if each.name != node.name)
        try:
            with super().prepare(node, nodes, study):
                yield
        finally:
            # Docker made it for the first container; while it is in use it stays.
            if Path(f"/proc/{node.pid}").exists():
                run_docker(node, "network", "rm", GATEWAY, check=False)

    @contextmanager
    def share(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        first = nodes[0]
        if not daemon(first).ask("GET", "/info").get("ClusterStore"):
            raise InfrastructureError(
                f"dockerd on {first.name} was started without --cluster-store",
                remedy="run overlay-etcd in a study, which starts its daemons with it",
            )
        with super().share(nodes, study):
            yield

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        _wait_until_known(node, self._network)
        yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        _announce(pod, self._network, self._others)
        with super().attach(pod, nic) as endpoint:
            yield endpoint


def probe_version(version: str) -> str | None:
    """Return that Docker of this version has no `--cluster-store` any more, or None."""
    numbers = re.search(r"version (\d+)\.(\S+?),?(?:\s|$)", version)
    if numbers is None or int(numbers[1]) <= LAST_WITH_STORE:
        return None
    return f"Docker {numbers[1]}.{numbers[2]} no longer has --cluster-store: use overlay"


def _version() -> str:
    path = find("dockerd")
    return _said(path) if path else ""


@cache
def _said(path: str) -> str:
    return run((path, "--version"), check=False, timeout_s=10).stdout


def _announce(pod: Pod, network: str, others: Sequence[str]) -> None:
    """Have the other daemons know a container, so that the containers reach each other.

    A daemon can miss what another says right after the two have met: serf takes it for older than their meeting. It
    never asks for it, and an MPI whose first connection fails waits for ever. What is said again is heard.
    """
    if _reaches(pod, others, FIRST_S):
        return
    _, address = interface_in(pod.pid, f"{overlay_subnet(study_of(pod))}.0/24")
    run_docker(pod.node, "network", "disconnect", network, pod.container)
    run_docker(pod.node, "network", "connect", "--ip", address, network, pod.container)
    if not _reaches(pod, others, REACHED_S):
        raise InfrastructureError(
            f"{pod.name} does not reach {' and '.join(others)} through overlay-etcd within {REACHED_S:g} s"
        )


def _reaches(pod: Pod, addresses: Sequence[str], limit_s: float) -> bool:
    """Return whether a container reaches all of some others within a time."""
    reached = set[str]()

    def reaches_all() -> bool:
        reached.update(address for address in addresses if address not in reached and answers(pod.pid, address))
        return reached >= set(addresses)

    return wait_until(reaches_all, limit_s, pause_s=PAUSE_S)


def _wait_until_known(node: Node, name: str) -> None:
    """Wait until a node's daemon has read the overlay from the store."""
    is_known = wait_until(lambda: knows(node, name) or has_ended(node), SEEN_S, pause_s=PAUSE_S)
    if has_ended(node):
        raise InfrastructureError(f"the node {node.name} has ended")
    if not is_known:
        raise InfrastructureError(f"dockerd on {node.name} did not find {name} in etcd within {SEEN_S:g} s")
