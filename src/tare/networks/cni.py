"""`cni:PATH`: any CNI configuration of the user's, a chain of plug-ins or a single one.

The plug-ins are called as the node's container engine would call them: each with the result of the previous one, and in
reverse order to undo everything. They run in a network stack that is theirs alone (host_stack.py), so bridges, routes
and rules that they leave behind end with it. What they omit, because on a cluster other components do it, is done here
with plain Linux: if each node has its own subnet, nodes get routes to the others' over the data NIC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from ipaddress import IPv4Interface, IPv4Network
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tare.daemons.daemons import Place
from tare.errors import InfrastructureError, RefusedError
from tare.networks.wiring.conflist import (
    PREFIX,
    Conflist,
    Plugins,
    Values,
    fill_in_for_node,
    find_supernet,
    own_subnets,
    refuse,
)
from tare.networks.wiring.conflist_file import read
from tare.networks.wiring.host_stack import in_stack, lend_nic
from tare.networks.wiring.plug import (
    POD_INTERFACE,
    SUBNETS,
    call_cni,
    cni_folders,
    cni_plugin,
    endpoint,
    flush_address,
    interfaces_in,
)
from tare.networks.wiring.routing import Route, add_routes
from tare.networks.wiring.stacked import StackedNetwork
from tare.system.node import Endpoint, Nic, Node, Pod, Wired
from tare.system.packages import install

LEASES: Final = "leases"
"""Where host-local records the addresses of a node's pods: in the stack's folder, so the records end with it."""
DEBIAN: Final = frozenset(
    ("bandwidth", "bridge", "dhcp", "firewall", "host-device", "host-local", "ipvlan", "loopback", "macvlan",
     "portmap", "ptp", "sbr", "static", "tuning", "vlan", "vrf")
)  # fmt: skip
"""The plug-ins in Debian's package."""
ROUTES: Final = Path("/proc/net/route")


class Cni(StackedNetwork):
    """Wire a pod with a user's CNI configuration."""

    def __init__(self, path: str) -> None:
        self.name = f"{PREFIX}{path}"
        self._path = path

    @cached_property
    def _conflist(self) -> Conflist:
        try:
            return read(self._path)
        except ValueError as error:
            raise RefusedError(str(error)) from None

    @property
    def product(self) -> str:  # type: ignore[override] # read from the file when it is needed
        try:
            stated = read(self._path)
        except ValueError:
            return "CNI's plug-ins themselves, by a configuration that cannot be read any more"
        return f"the CNI plug-ins {', '.join(stated.programs)} themselves, as {self._path} chains them"

    @property
    def reaches_outside(self) -> bool:
        return self._conflist.takes_address

    @property
    def pods_share_nic(self) -> bool:
        return not self._conflist.moves_nic

    def probe(self) -> str | None:
        try:
            return probe_plugins(read(self._path))
        except ValueError as error:
            return str(error)

    def refuse(self, nodes: int) -> str | None:
        try:
            stated = read(self._path)
        except ValueError as error:
            return str(error)
        if "dhcp" in stated.programs:
            return f"{self._path} uses dhcp, but the data network has no DHCP server: use host-local or static"
        return refuse(stated, nodes, lab=SUBNETS, host=routes_of_machine(ROUTES))

    @property
    def stack_name(self) -> str:
        return "cni"

    @contextmanager
    def on_node(self, node: Node, nic: Nic) -> Iterator[None]:
        place = self.place
        with lend_nic(place, nic):
            if self._conflist.takes_subnet:
                flush_address(place.pid, nic)
            with add_routes(place.pid, node.name, self._routes(node, nic)):
                yield

    @contextmanager
    def attach(self, pod: Pod, nic: Nic) -> Iterator[Endpoint]:
        place = self.place
        with call_chain(self._plugins(place, nic, pod.number), in_stack(pod, place), self._path):
            address = self._address(pod)
            nic_stays = not self._conflist.moves_nic
            role = "interface of the pod" if nic_stays else "data NIC in the pod"
            under = ((place.pid, nic.name, "data NIC"),) if nic_stays else ()
            yield endpoint(pod, str(address.ip), self._prefix(address), role, *under)

    @contextmanager
    def join(self, node: Node, pods: Sequence[Wired]) -> Iterator[tuple[Endpoint, ...]]:
        owners: dict[str, str] = {}
        for each in pods:
            owner = owners.setdefault(each.endpoint.address, each.pod.name)
            if owner != each.pod.name:
                raise InfrastructureError(
                    f"{self._path} gave {each.endpoint.address} to {owner} and to {each.pod.name}",
                    remedy="make the addresses differ with ${node} and ${pod}, or use ${cidr}",
                )
        with super().join(node, pods) as endpoints:
            yield endpoints

    def _plugins(self, place: Place, nic: Nic, number: int) -> Plugins:
        values = Values(
            node=place.node.index,
            nodes=len(self._nodes),
            nic_name=nic.name,
            nic=IPv4Interface(nic.cidr),
            mtu=nic.mtu,
            pod=number,
        )
        try:
            return fill_in_for_node(self._conflist, values, str(place.path(LEASES)))
        except ValueError as error:
            raise RefusedError(str(error)) from None

    def _address(self, pod: Pod) -> IPv4Interface:
        """Return the address that a pod was given; raise `InfrastructureError` if it has none."""
        given = read_addresses(pod.pid, POD_INTERFACE)
        if not given:
            raise InfrastructureError(
                f"{self._path} gave {pod.name} no IPv4 address",
                remedy='give a plug-in an "ipam", as {"type": "static", "addresses": [{"address": "${cidr}"}]}',
            )
        return given[0]

    def _subnets(self) -> tuple[tuple[IPv4Network, ...], ...]:
        """Return the subnets that the file names for the pods of each node."""
        return own_subnets(self._conflist, len(self._nodes))

    def _prefix(self, address: IPv4Interface) -> int:
        """Return the prefix length of one network with the addresses of all nodes, which MPI needs."""
        stated = list(chain.from_iterable(self._subnets()))
        whole = find_supernet([*stated, address.network]) if stated else None
        return address.network.prefixlen if whole is None else whole.prefixlen

    def _routes(self, node: Node, nic: Nic) -> list[Route]:
        """Return the routes to the pods of the other nodes if each node has its own subnet."""
        by_node = self._subnets()
        number = node.nics.index(nic)
        return [
            Route(network=network, gateway=peer.nics[number].address, interface=nic.name)
            for peer in self._nodes
            for network in by_node[peer.index]
            if network not in by_node[node.index]
        ]


# --- the chain ----------------------------------------------------------------------------------------------------


@contextmanager
def call_chain(plugins: Plugins, pod: Pod, path: str) -> Iterator[None]:
    """Keep a pod wired by a chain of plug-ins; if one of them fails, it and the previous ones are undone."""
    called: list[tuple[str, Mapping[str, Any]]] = []
    result: dict[str, Any] = {}
    try:
        for number, plugin in enumerate(plugins, start=1):
            called.append((f" ({number} of {len(plugins)} in {path})", plugin))
            result = call_cni("ADD", with_result(plugin, result), pod, called[-1][0])
    except BaseException:
        with suppress(InfrastructureError):  # report the first error
            _undo(called, result, pod)
        raise
    try:
        yield
    finally:
        _undo(called, result, pod)


def _undo(added: Sequence[tuple[str, Mapping[str, Any]]], result: Mapping[str, Any], pod: Pod) -> None:
    """Call all plug-ins in reverse and report the first failure; what is on a removed node was removed with it."""
    if not Path(f"/proc/{pod.node.pid}").exists():
        return
    failure: InfrastructureError | None = None
    for where, plugin in reversed(added):
        try:
            call_cni("DEL", with_result(plugin, result if keeps_result(plugin) else {}), pod, where)
        except InfrastructureError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def with_result(plugin: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chained plug-in's input: its configuration with the result of the previous plug-ins."""
    return {**plugin, **({"prevResult": dict(result)} if result else {})}


def keeps_result(plugin: Mapping[str, Any]) -> bool:
    """Return whether a plug-in gets the result when it is undone, as CNI requires from 0.4.0 on."""
    numbers = [int(part) for part in str(plugin.get("cniVersion", "0")).split(".") if part.isdecimal()]
    return tuple(numbers) >= (0, 4)


def read_addresses(pid: int, interface: str) -> list[IPv4Interface]:
    """Return the first IPv4 address of an interface in a process's network namespace, or none."""
    given = interfaces_in(pid).get(interface)
    return [IPv4Interface("/".join(map(str, given)))] if given else []


# --- missing plug-ins, used networks ------------------------------------------------------------------------------


def probe_plugins(conflist: Conflist) -> str | None:
    """Return which plug-ins of a configuration are missing, and where they were searched for, or None."""
    lacking = [name for name in conflist.programs if cni_plugin(name) is None]
    if not lacking:
        return None
    folders = ", ".join(str(folder) for folder in cni_folders()) or "no plug-in folder"
    remedy = "add their folder to CNI_PATH"
    if DEBIAN.issuperset(lacking):
        remedy = f"{install('containernetworking-plugins')}, or {remedy}"
    return f"CNI plug-in {', '.join(lacking)} of {conflist.path} not found in {folders}: {remedy}"


def routes_of_machine(table: Path) -> tuple[tuple[IPv4Network, str], ...]:
    """Return the networks that this machine has routes to, except the default route, each with a description.

    `table` is /proc/net/route: addresses as hexadecimal numbers in this machine's byte order (little-endian).
    """
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return ()
    routes = []
    for line in lines:
        interface, destination, _, _, _, _, _, mask = line.split()[:8]
        network = IPv4Network((_address_of(destination), _address_of(mask)), strict=False)
        if network.prefixlen:
            routes.append((network, f"a route of this machine (by {interface})"))
    return tuple(routes)


def _address_of(word: str) -> str:
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(word)))
