"""Say which of a node's own interfaces prove the way that its pods' messages take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tare.system.counters.interfaces import Counts
from tare.system.node import NODE_NIC, NODE_TUNNEL, SILENT_ROLE, Watch

OF_NODE: Final = 1 << 30
"""Stands for the node's own processes among those of its pods, in keys of interfaces."""
NOTHING: Final[Counts] = (0, 0, 0, 0)


def watched(
    nic: str, tunnels: Sequence[str], runtime_class: str, devices: Mapping[str, Mapping[str, str]], *, alone: bool
) -> tuple[Watch, ...]:
    """Return watches on the interfaces of a node that messages of its pods pass, or that must stay silent meanwhile.

    `devices` are what the network of each runtime class has on the node, where that is known. Else the node's only
    tunnel is that of pods without a runtime class, and nothing is known of others. Messages between pods of a node pass
    nothing of it, so a pod must be `alone` there to be held to what passes.
    """
    if devices:
        own = devices.get(runtime_class, {})
    else:
        own = {name: NODE_TUNNEL for name in tunnels if len(tunnels) == 1 and not runtime_class}
    others = {name for each in devices.values() for name in each} - set(own)
    passed = {nic: NODE_NIC, **own} if alone else {}
    roles = {**passed, **dict.fromkeys(sorted(others), SILENT_ROLE)}
    return tuple(Watch(pid=OF_NODE, interface=name, role=role) for name, role in roles.items())


def counted(watches: Sequence[Watch], told: Mapping[str, Counts]) -> dict[str, Counts]:
    """Return the counters of watches; an interface that should be silent and does not exist has carried nothing."""
    return {
        each.interface: told.get(each.interface, NOTHING)
        for each in watches
        if each.role == SILENT_ROLE or each.interface in told
    }


def named(runtime_class: str, titles: Mapping[str, str]) -> dict[str, str]:
    """Return the facts that name the network of pods with a runtime class, as far as it is known."""
    title = titles.get(runtime_class, "")
    return {
        **({"runtime class": runtime_class} if runtime_class else {}),
        **({"pods' network": title} if title else {}),
    }
