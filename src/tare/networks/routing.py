"""Nodes as routers: they forward between their data NIC and their pods, with routes to the pods of other nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from tare.errors import CommandFailed, InfrastructureError
from tare.namespaces import index_of, inside_network, netlink
from tare.node import Node
from tare.process import find, run

FORWARD: Final = Path("/proc/sys/net/ipv4/ip_forward")
DROPS: Final = "-P FORWARD DROP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way to a network: by the address of another node, over an interface."""

    network: IPv4Network
    gateway: str
    interface: str


@contextmanager
def routed(node: Node, routes: Sequence[Route]) -> Iterator[None]:
    """Keep routes in a node; raise `InfrastructureError` where it has one of them already."""
    from pyroute2.netlink.exceptions import NetlinkError

    added: list[dict[str, object]] = []
    try:
        with netlink(node.pid) as route:
            for each in routes:
                entry = {"dst": str(each.network), "gateway": each.gateway, "oif": index_of(route, each.interface)}
                try:
                    route.route("add", **entry)
                except NetlinkError as error:
                    raise InfrastructureError(
                        f"{node.name} cannot have a route to {each.network}: {error.args[-1]}",
                        remedy="environments of a study are up together: each needs subnets of its own",
                    ) from None
                added.append(entry)
        yield
    finally:
        if Path(f"/proc/{node.pid}").exists():
            with netlink(node.pid) as route:
                for entry in reversed(added):
                    with suppress(NetlinkError):  # the kernel takes a route with its interface
                        route.route("del", **entry)


@contextmanager
def forwarding(node: Node, networks: Sequence[IPv4Network]) -> Iterator[None]:
    """Let a node forward between networks; it is as before when this is left.

    Docker drops what it does not know of on its way through a node (`FORWARD DROP`). There the networks are let
    through by rules of their own, as flannel and CNI's firewall plug-in do.
    """
    before = _forwards(node, "1")
    with ExitStack() as stack:
        stack.callback(_forwards, node, before)
        if node.docker_socket and DROPS in _iptables(node, "-S", "FORWARD"):
            for network in networks:
                for side in ("-s", "-d"):
                    rule = (side, str(network), "-j", "ACCEPT", "-m", "comment", "--comment", "tare")
                    _iptables(node, "-I", "FORWARD", *rule)
                    stack.callback(_iptables, node, "-D", "FORWARD", *rule)
        yield


def _forwards(node: Node, value: str) -> str:
    """Set whether a node forwards, and return what it was; nothing is done where the node is gone."""
    if not Path(f"/proc/{node.pid}").exists():
        return value
    with inside_network(node.pid):
        before = FORWARD.read_text().strip()
        if before != value:
            FORWARD.write_text(value)
    return before


def _iptables(node: Node, *arguments: str) -> str:
    if not Path(f"/proc/{node.pid}").exists():
        return ""
    program = find("iptables")
    if program is None:
        raise InfrastructureError("iptables is not installed: apt-get install iptables")
    argv = ("nsenter", f"--net=/proc/{node.pid}/ns/net", "--", program, "--wait", *arguments)
    result = run(argv, timeout_s=20, check=False)
    if result.status != 0:
        raise CommandFailed(
            f"iptables {' '.join(arguments[:2])} on {node.name} failed: {result.stderr_tail}", argv=argv
        )
    return result.stdout
