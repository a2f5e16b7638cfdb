"""Fill in a user's CNI network configuration for a pod, and check it before anything is created.

Nodes that are given the same file would all hand out the same addresses. A file may therefore contain variables
(`VARIABLES`), as in `10.244.${node}.0/24`, and a host-local range without node-specific parts is divided among the
nodes.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from itertools import chain, islice, product
from typing import Any, Final

PREFIX: Final = "cni:"
"""Prefix of the path if a network's name is that of a file."""
VARIABLES: Final[Mapping[str, str]] = {
    "node": "the number of the node, from 0",
    "nodes": "how many nodes the environment has",
    "pod": "the number of the pod on its node, from 0",
    "nic": "the name of the node's data NIC",
    "mtu": "the MTU of that NIC",
    "address": "an address of the pod's own in the subnet of that NIC",
    "cidr": "that address with the length of its subnet, as 10.214.1.2/24",
    "subnet": "that subnet, as 10.214.1.0/24",
}
HIDDEN: Final = IPv4Interface("192.0.2.1/24")
"""A placeholder for the NIC's values where only the file's own addresses matter (RFC 5737)."""
MAX_SHOWN: Final = 80
"""How much of a wrong value a message shows."""

_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_DIVIDED: Final = "host-local"

Json = Any
Plugins = tuple[dict[str, Json], ...]


def is_conflist(network: str) -> bool:
    """Return whether a network is a user's CNI configuration, given by its path."""
    return network.startswith(PREFIX) and len(network) > len(PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflist:
    """A configuration as its file states it: a chain of plug-ins, or the single plug-in of a plain .conf."""

    path: str
    name: str
    version: str
    plugins: tuple[Mapping[str, Json], ...]
    text: str

    @property
    def digest(self) -> str:
        """Return a short hash of the file's text: a different text is a different network."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the plug-ins that are called; IPAM plug-ins follow the plug-ins that call them."""
        named = ((plugin["type"], _ipam(plugin).get("type")) for plugin in self.plugins)
        return tuple(dict.fromkeys(name for name in chain.from_iterable(named) if name))

    @property
    def takes_subnet(self) -> bool:
        """Return whether pods get addresses in the subnet of their NICs, which then have none themselves."""
        return not {"address", "cidr", "subnet"}.isdisjoint(find_variables(list(self.plugins)))

    @property
    def takes_address(self) -> bool:
        """Return whether a pod gets exactly the address that its node would have."""
        return not {"address", "cidr"}.isdisjoint(find_variables(list(self.plugins)))

    @property
    def moves_nic(self) -> bool:
        """Return whether the NIC itself is moved into the pod, so that there can be only one pod."""
        return any(plugin["type"] == "host-device" for plugin in self.plugins)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values of a configuration's variables for one pod; `nic` is its address and subnet there."""

    node: int
    nodes: int
    nic_name: str = "data0"
    nic: IPv4Interface = HIDDEN
    mtu: int = 1500
    pod: int = 0

    @property
    def by_name(self) -> dict[str, str | int]:
        """Return the value of every variable."""
        return {
            "node": self.node,
            "nodes": self.nodes,
            "pod": self.pod,
            "nic": self.nic_name,
            "mtu": self.mtu,
            "address": str(self.nic.ip),
            "cidr": str(self.nic),
            "subnet": str(self.nic.network),
        }


def _ipam(plugin: Mapping[str, Json]) -> Mapping[str, Json]:
    ipam = plugin.get("ipam", {})
    return ipam if isinstance(ipam, dict) else {}


def find_variables(value: Json) -> Iterator[str]:
    """Yield the variables in a value and in everything nested in it."""
    if isinstance(value, str):
        yield from _VARIABLE.findall(value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from find_variables(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_variables(inner)


def shorten(text: object) -> str:
    """Return the beginning of a text of the file, in printable form."""
    printable = str(text)
    printable = printable if printable.isprintable() else ascii(printable)[1:-1]
    return printable if len(printable) <= MAX_SHOWN else f"{printable[:MAX_SHOWN]}..."


# --- filling in ---------------------------------------------------------------------------------------------------


def fill_in(conflist: Conflist, place: Values) -> Plugins:
    """Return the plug-ins' configurations with the values of a place, each with the name and version of the list.

    Raises `ValueError` if an address in them is invalid.
    """
    head = {"name": conflist.name, **({"cniVersion": conflist.version} if conflist.version else {})}
    plugins = tuple({**_with_values(plugin, place.by_name), **head} for plugin in conflist.plugins)
    try:
        list(subnets(plugins))
    except ValueError as error:
        raise ValueError(f"{conflist.path}: {error}") from None
    return plugins


def _with_values(value: Json, values: Mapping[str, str | int]) -> Json:
    """Return a value with its variables replaced; a text that is only a numeric variable becomes a number."""
    if isinstance(value, str):
        alone = _VARIABLE.fullmatch(value)
        if alone:
            return values[alone.group(1)]
        return _VARIABLE.sub(lambda match: str(values[match.group(1)]), value)
    if isinstance(value, Mapping):
        return {key: _with_values(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_values(inner, values) for inner in value]
    return value


def fill_in_for_node(conflist: Conflist, place: Values, folder: str) -> Plugins:
    """Return the configurations for a pod: filled in, ranges divided among the nodes, leases kept in `folder`.

    host-local does not know about nodes. A range that is the same on several nodes is split into equal parts, so that
    no two nodes hand out the same address.
    """
    plugins_here = fill_in(conflist, place)
    all_nodes = [fill_in(conflist, replace(place, node=node)) for node in range(place.nodes)]
    for number, plugin in enumerate(plugins_here):
        if _ipam(plugin).get("type") != _DIVIDED:
            continue
        for index, own_range in enumerate(_ranges(plugin)):
            bounds = [_bounds(plugins, number, index) for plugins in all_nodes]
            alike = [node for node, bound in enumerate(bounds) if bound == bounds[place.node]]
            if len(alike) > 1:
                own_range.update(_part(conflist.path, own_range, alike.index(place.node), len(alike)))
        plugin["ipam"]["dataDir"] = folder
    return plugins_here


def _bounds(plugins: Plugins, number: int, index: int) -> tuple[Json, ...] | None:
    """Return the address bounds that a plug-in's range states, or None if the plug-in has no such range."""
    range_ = next(islice(_ranges(plugins[number]), index, None), None)
    return None if range_ is None else tuple(range_.get(key) for key in ("subnet", "rangeStart", "rangeEnd"))


def _ranges(plugin: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield the IPv4 ranges of host-local: of the short form, and of the sets of ranges."""
    ipam = plugin.get("ipam", {})
    sets = ipam.get("ranges", [])
    listed = (
        chain.from_iterable(listed_set for listed_set in sets if isinstance(listed_set, list))
        if isinstance(sets, list)
        else ()
    )
    for range_ in (ipam, *listed):
        if isinstance(range_, dict) and "subnet" in range_ and ":" not in str(range_["subnet"]):
            yield range_


def _part(path: str, range_: Mapping[str, Json], index: int, parts: int) -> dict[str, str]:
    try:
        return part_of(range_, index, parts)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def part_of(range_: Mapping[str, Json], index: int, parts: int) -> dict[str, str]:
    """Return the first and the last address of one of `parts` equal parts of a range.

    Raises `ValueError` if the range has fewer addresses than parts. The network address, the broadcast address and the
    first address, which host-local uses for the gateway, belong to no part.
    """
    network = _network(range_["subnet"])
    first = int(IPv4Address(range_["rangeStart"])) if "rangeStart" in range_ else int(network.network_address) + 2
    last = int(IPv4Address(range_["rangeEnd"])) if "rangeEnd" in range_ else int(network.broadcast_address) - 1
    size = (last - first + 1) // parts
    if size < 1:
        raise ValueError(f"the range {network} has too few addresses for {parts} nodes")
    start = first + index * size
    return {"rangeStart": str(IPv4Address(start)), "rangeEnd": str(IPv4Address(start + size - 1))}


# --- checking -----------------------------------------------------------------------------------------------------


def subnets(plugins: Iterable[Mapping[str, Json]]) -> Iterator[IPv4Network]:
    """Yield the IPv4 subnets from which plug-ins assign addresses, as far as host-local and static state them."""
    for plugin in plugins:
        yield from (_network(range_["subnet"]) for range_ in _ranges(plugin))
        yield from (_interface(address).network for address in fixed_addresses([plugin]))


def fixed_addresses(plugins: Iterable[Mapping[str, Json]]) -> Iterator[str]:
    """Yield the IPv4 addresses that `static` assigns to every pod."""
    for plugin in plugins:
        listed = _ipam(plugin).get("addresses", []) if _ipam(plugin).get("type") == "static" else []
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, dict) and ":" not in str(entry.get("address", ":")):
                yield str(entry["address"])


def make_places(nodes: int) -> tuple[Values, ...]:
    """Return places on `nodes` nodes with the NIC's subnet masked; each node keeps its own address."""
    return tuple(Values(node=node, nodes=nodes, nic=_hidden(node)) for node in range(nodes))


def _hidden(node: int) -> IPv4Interface:
    return IPv4Interface(f"{HIDDEN.network[1 + node % 250]}/{HIDDEN.network.prefixlen}")


def own_subnets(conflist: Conflist, nodes: int) -> tuple[tuple[IPv4Network, ...], ...]:
    """Return, for each node, the subnets that the file itself names, without those that variables take from the NIC."""
    by_node = ([*subnets(fill_in(conflist, place))] for place in make_places(nodes))
    return tuple(tuple(network for network in networks if not network.overlaps(HIDDEN.network)) for networks in by_node)


def find_supernet(networks: Iterable[IPv4Network]) -> IPv4Network | None:
    """Return the smallest network that contains all the networks, or None if there are none."""
    listed = list(networks)
    if not listed:
        return None
    network = listed[0]
    while not all(inner.subnet_of(network) for inner in listed):
        network = network.supernet()
    return network


def refuse(
    conflist: Conflist,
    nodes: int,
    *,
    lab: Sequence[tuple[IPv4Network, str]],
    host: Sequence[tuple[IPv4Network, str]] = (),
) -> str | None:
    """Return why a configuration cannot serve pods on this many nodes, or None.

    `lab` and `host` are the lab's networks and this machine's routes, each with a description.
    """
    try:
        by_node = [fill_in(conflist, place) for place in make_places(nodes)]
        for place in make_places(nodes):
            fill_in_for_node(conflist, place, "/run")
    except ValueError as error:
        return str(error)
    addresses = Counter(address for plugins in by_node for address in fixed_addresses(plugins))
    twice = next((address for address, times in addresses.items() if times > 1), None)
    if twice is not None:
        return f"{conflist.path} gives {twice} to a pod on every node: write ${{cidr}}, or 10.50.0.1${{node}}/24"
    stated = tuple(chain.from_iterable(own_subnets(conflist, nodes)))
    for network, (other, what) in product(stated, (*lab, *host)):
        if other.overlaps(network):
            return f"the subnet {network} of {conflist.path} overlaps {other}, which is {what}: choose another"
    whole = find_supernet(stated)
    if whole is not None and (met := next((what for other, what in lab if other.overlaps(whole)), None)):
        return (
            f"the subnets of {conflist.path} lie too far apart: MPI gets one network that contains all of them, and "
            f"{whole} also contains {met}; choose adjacent subnets, such as 10.244.${{node}}.0/24"
        )
    return None


def _network(value: object) -> IPv4Network:
    try:
        return IPv4Network(str(value), strict=False)
    except ValueError:
        raise ValueError(f"{shorten(value)!r} is not a subnet: write it as 10.244.${{node}}.0/24") from None


def _interface(value: object) -> IPv4Interface:
    try:
        return IPv4Interface(str(value))
    except ValueError:
        raise ValueError(f"{shorten(value)!r} is not an address: write it as 10.50.0.2/24, or ${{cidr}}") from None
