"""Set routes in nodes, and in the stacks of their networks, to the pods of other nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from tare.errors import InfrastructureError
from tare.system.namespaces import index_of, netlink


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route to a network: via another node's address, over an interface."""

    network: IPv4Network
    gateway: str
    interface: str


@contextmanager
def add_routes(pid: int, where: str, routes: Sequence[Route]) -> Iterator[None]:
    """Keep routes in a process's network namespace; `where` describes it in messages.

    Raises `InfrastructureError` if the kernel rejects one of them, for instance one that exists already.
    """
    from pyroute2.netlink.exceptions import NetlinkError

    added: list[dict[str, object]] = []
    try:
        with netlink(pid) as route:
            for new in routes:
                entry = {"dst": str(new.network), "gateway": new.gateway, "oif": index_of(route, new.interface)}
                try:
                    route.route("add", **entry)
                except NetlinkError as error:
                    raise InfrastructureError(
                        f"{where} cannot have a route to {new.network}: {error.args[-1]}"
                    ) from None
                added.append(entry)
        yield
    finally:
        if Path(f"/proc/{pid}").exists():
            with netlink(pid) as route:
                for entry in reversed(added):
                    with suppress(NetlinkError):  # the kernel removes a route with its interface
                        route.route("del", **entry)
