"""`overlay-etcd`: Docker's overlay before Swarm, as in papers/004: its daemons coordinate through a key-value store.

`--cluster-store` and `--cluster-advertise` were removed in Docker 23. With these options the daemons of a study cannot
be in a Swarm, so `overlay` and `overlay-etcd` need separate studies (tare.plan.composition.apart).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.host.process import find, run
from tare.networks.overlay import Overlay, network_name, overlay_subnet, remove_network
from tare.node import Node
from tare.services import etcd
from tare.services.docker import run_docker
from tare.services.docker_api import request

LAST_WITH_STORE: Final = 20
SEEN_S: Final = 10.0
GATEWAY: Final = "docker_gwbridge"
"""The bridge over which an overlay's containers reach outside networks."""


class OverlayEtcd(Overlay):
    """Let Docker attach the container to an overlay whose state is in etcd."""

    name = "overlay-etcd"
    product = "Docker itself: its overlay before Swarm, with etcd as the key-value store"
    crosses_subnets = False
    needs_swarm = False
    needs_store = True

    def probe(self) -> str | None:
        return etcd.probe() or probe_version(_version())

    @contextmanager
    def prepare(self, nodes: Sequence[Node], study: str) -> Iterator[None]:
        first = nodes[0]
        if not request(first, "GET", "/info", what="asking for the store").get("ClusterStore"):
            raise InfrastructureError(
                f"dockerd on {first.name} was started without --cluster-store",
                remedy="run overlay-etcd in a study, which starts its daemons with it",
            )
        name = network_name(study)
        run_docker(
            first, "network", "create", "--driver", "overlay", "--label", f"tare.study={study}",
            "--subnet", f"{overlay_subnet(study)}.0/24", name,
        )  # fmt: skip
        try:
            _wait_until_seen(nodes, name)
            yield
        finally:
            remove_network(nodes, name)
            for node in nodes:  # Docker made it for the first container; while it is in use it stays
                if Path(f"/proc/{node.pid}").exists():
                    run_docker(node, "network", "rm", GATEWAY, check=False)


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


def _wait_until_seen(nodes: Sequence[Node], name: str) -> None:
    """Wait until every daemon has read the overlay from the store."""
    until = time.monotonic() + SEEN_S
    for node in nodes:
        while run_docker(node, "network", "inspect", name, check=False).status != 0:
            if time.monotonic() > until:
                raise InfrastructureError(f"dockerd on {node.name} did not find {name} in etcd within {SEEN_S:g} s")
            if not Path(f"/proc/{node.pid}").exists():
                raise InfrastructureError(f"the node {node.name} has ended")
            time.sleep(0.02)
