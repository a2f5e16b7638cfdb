"""Read the settings of a product from a cluster's objects, and tell from the product's table what they mean. Pure."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Sequence
from typing import Any, Final

from tare.clusters.pods.objects import LONGEST, annotations_of, at, name_of, named, text
from tare.clusters.pods.pod_networks.model import (
    ANY,
    ClusterObjects,
    Product,
    RecognisedNetwork,
    Setting,
    SettingSource,
    Stated,
)
from tare.model.text import printable

MOST_TEXT: Final = 1 << 18
"""The most characters of a file that are looked at."""
LARGEST_MTU: Final = 1 << 16
TRUE: Final = frozenset({"true", "1", "yes", "on"})
ADDRESS_OF_NODE: Final = "projectcalico.org/IPv4Address"
POOL_MODES: Final = ("ipipMode", "vxlanMode")
NEVER_MODE: Final = "Never"
CROSS_SUBNET: Final = "crosssubnet"
DIFFER: Final = "differ"
"""The value of pools of Calico that have not the same mode."""
SECURED: Final = ("WireGuard", "IPsec")
"""Encapsulations that encrypt."""


def details(product: Product, own: ClusterObjects) -> RecognisedNetwork:
    """Return what the settings of a product say, with a sentence for each; `own` are its own agents and config maps."""
    told: dict[str, Any] = {}
    evidence: dict[str, None] = {}
    for row in product.settings:
        counts = row.about not in told and (not row.within or told.get("encapsulation") in row.within)
        stated = row.where.read(own, row.key) if counts else None
        if stated is None or (meaning := _meaning(row, stated.value.lower())) is None:
            continue
        told[row.about] = meaning
        evidence |= dict.fromkeys(_sentences(row, stated))
    told.pop("note", None)
    if told.get("encapsulation") in SECURED:
        told["encryption"] = told["encapsulation"]
    return RecognisedNetwork(**told, evidence=tuple(evidence))


def _meaning(row: Setting, value: str) -> str | bool | int | None:
    """Return what a value means; None if it leaves that to other settings."""
    if row.about == "mtu":
        return mtu_of(value) or None
    return row.means.get(value, row.means.get(ANY) if value else None)


def _sentences(row: Setting, stated: Stated) -> tuple[str, ...]:
    file, _, key = row.key.rpartition("/")
    said, value = row.said or row.where.said, stated.value.lower() or row.unset
    told = [said.format(source=source, file=file, key=key, value=value) for source in stated.sources]
    return tuple("\n".join(told).split("\n"))


def _of_config_map(own: ClusterObjects, key: str) -> Stated | None:
    data = ((name_of(each), named(at(each, "data"))) for each in own.config_maps)
    return _first([Stated(stated.get(key, ""), (name,)) for name, stated in data if stated])


def _of_file(own: ClusterObjects, path: str) -> Stated | None:
    """Return what is stated in a file of the first config map that has it, and there something under the key."""
    file, _, key = path.partition("/")
    contents = ((name_of(each), at(each, "data", file)) for each in own.config_maps)
    texts = ((name, content[:MOST_TEXT]) for name, content in contents if isinstance(content, str))
    read = _in_json if file.endswith(".json") else setting
    return _first([Stated(read(content, key), (name,)) for name, content in texts])


def _in_json(content: str, path: str) -> str:
    try:
        return text(at(json.loads(content), *path.split(".")))
    except (ValueError, RecursionError):
        return ""


def _of_agent(own: ClusterObjects, key: str) -> Stated | None:
    stated = {name: value for agent in own.agents for name, value in agent.settings.items()}
    return Stated(stated.get(key, ""), ("",)) if own.agents else None


def _of_nodes(own: ClusterObjects, key: str) -> Stated | None:
    """Return what nodes state in an annotation, with the first of them; all values if they differ."""
    stated = [(value, name_of(node)) for node in own.nodes if (value := annotations_of(node).get(key))]
    values = sorted({value for value, _ in stated})
    return Stated(" or ".join(values), (stated[0][1],)) if stated else None


def _of_pools(own: ClusterObjects, _key: str) -> Stated | None:
    """Return the mode of Calico's IP pools, as `ipipMode Always`.

    In mode CrossSubnet only packets to another subnet are encapsulated: none, if all nodes are in one.
    """
    stated = [pool for pool in own.ip_pools if isinstance(at(pool, "spec"), dict)]
    pools = [pool for pool in stated if not is_true(text(at(pool, "spec", "disabled")))]
    if not pools:
        return None
    modes = {_mode(pool) for pool in pools if ":" not in text(at(pool, "spec", "cidr"))} or set(map(_mode, pools))
    said = tuple(f"IP pool {name_of(pool)}: {_stated_modes(pool)}" for pool in pools)
    if len(modes) != 1:
        return Stated(DIFFER, (*said, "the pools differ, and no pod says which is its own"))
    (mode,) = modes
    where = subnets(own.nodes) if mode.endswith(CROSS_SUBNET) else None
    if where is not None and len(where) == 1:
        return Stated(NEVER_MODE, (*said, f"all nodes are in the subnet {min(where)}"))
    return Stated(mode, said)


def _mode(pool: Any) -> str:
    modes = ((key, text(at(pool, "spec", key)).lower()) for key in POOL_MODES)
    return next((f"{key} {mode}" for key, mode in modes if mode in ("always", CROSS_SUBNET)), NEVER_MODE)


def _stated_modes(pool: Any) -> str:
    return ", ".join(f"{key} {text(at(pool, 'spec', key)) or NEVER_MODE}" for key in POOL_MODES)


def _first(found: list[Stated]) -> Stated | None:
    """Return the first that is set, or else the first."""
    return next((each for each in found if each.value), found[0] if found else None)


def is_true(value: str) -> bool:
    """Return whether a setting is on."""
    return value.strip().lower() in TRUE


def mtu_of(value: Any) -> int:
    """Return an MTU from a setting; 0 if there is none, or it is for the product to choose."""
    said = text(value)
    number = int(said) if said.isascii() and said.isdigit() else 0
    return number if 0 < number <= LARGEST_MTU else 0


def setting(config: str, key: str) -> str:
    """Return a setting from a text with lines `key: value` or `key = value`; "" if it is not set."""
    found = re.search(rf"^[ \t]*{re.escape(key)}[ \t]*[:=][ \t]*(\S.{{0,{LONGEST}}})$", config, re.MULTILINE)
    value = found[1].split(" #", 1)[0].strip().strip("\"'") if found else ""
    return printable(value)


def subnets(nodes: Sequence[Any]) -> frozenset[str] | None:
    """Return the subnets that the nodes are in, if each of them says its own; None if not."""
    found = set()
    for node in nodes:
        said = annotations_of(node).get(ADDRESS_OF_NODE, "")
        try:
            found.add(str(ipaddress.ip_interface(said).network))
        except ValueError:
            return None
    return frozenset(found) or None


CONFIG_MAP: Final = SettingSource(read=_of_config_map, said="config map {source}: {key} {value}")
FILE: Final = SettingSource(read=_of_file, said="{file}: {key} {value}")
"""A file in a config map, with lines `key: value`, or JSON, where `A.B` is the key B of the object A."""
AGENT: Final = SettingSource(read=_of_agent, said="the agent has {key} {value}")
NODES: Final = SettingSource(read=_of_nodes)
IP_POOLS: Final = SettingSource(read=_of_pools)
ALWAYS: Final = SettingSource(read=lambda _own, _key: Stated("", ("",)), said="{key}")
"""What is so in every cluster with the product."""
