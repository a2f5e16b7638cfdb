"""The links of a lab: bridges, and ports of bridges in namespaces of nodes."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from tare.model import LabSpec
from tare.system.namespaces import index_of

if TYPE_CHECKING:
    from pyroute2 import IPRoute

SEGMENT_BURST_S: Final = 0.001


def add_bridge(route: IPRoute, name: str) -> int:
    """Make a bridge and return its index."""
    # Without a fixed address a bridge takes the lowest of its ports' addresses. The head's address would then change
    # whenever a pod is added or removed.
    octets = uuid.uuid4().bytes
    address = ":".join(["02", *(f"{octet:02x}" for octet in octets[:5])])
    options = {"br_mcast_snooping": 0, "br_stp_state": 0, "br_forward_delay": 0}
    route.link("add", ifname=name, kind="bridge", address=address, state="up", **options)
    return index_of(route, name)


def add_port(route: IPRoute, bridge: int, pid: int, *, port: str, peer: str, spec: LabSpec | None) -> None:
    """Connect a process's namespace to a bridge; with `spec` the link has the lab's rate and segments."""
    add_peer(route, bridge, pid, port=port, peer=peer)
    if spec is None or not (spec.segmented or spec.link_rate_bps):
        return
    index = index_of(route, port)
    if spec.segmented:
        route.link("set", index=index, gso_max_segs=1)
    if spec.link_rate_bps:
        rate = spec.link_rate_bps // 8
        burst = max(int(rate * SEGMENT_BURST_S), 128 * 1024)
        route.tc("add", "tbf", index=index, handle=0x10000, rate=rate, burst=burst, latency="50ms")


def add_peer(route: IPRoute, bridge: int, pid: int, *, port: str, peer: str) -> None:
    """Connect a process's namespace to a bridge."""
    route.link(
        "add", ifname=port, kind="veth", master=bridge, state="up", peer={"ifname": peer, "net_ns_pid": pid}
    )  # fmt: skip


def set_up(route: IPRoute, index: int) -> None:
    """Set an interface up."""
    route.link("set", index=index, state="up")
