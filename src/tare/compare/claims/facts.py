"""Name what a rank reported of its rights, namespaces and limits, for those who compare it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.analysis.summary.isolation import NAMESPACES, capabilities, no_new_privileges, seccomp, users
from tare.analysis.summary.surroundings import NOT_KNOWN
from tare.model import RankPlace

LIMITS: Final = ("memory_bytes", "cpus", "pids")
UNLIMITED: Final = "none"


def facts_of(rank: RankPlace) -> Mapping[str, str]:
    """Return the facts of a rank by name, without those that it did not report."""
    rights = rank.rights
    found = {
        "capabilities": capabilities(rights.get("capabilities", "")),
        "users": users(rights),
        "seccomp": seccomp(rights),
        "no new privileges": no_new_privileges(rights),
        "root folder": rights.get("root", NOT_KNOWN),
        "set-user-ID helper": rights.get("setuid", NOT_KNOWN),
        **{f"namespace {name}": _namespace(rank, name) for name in NAMESPACES},
        **_limits(rights.get("limits", NOT_KNOWN)),
    }
    return {name: text for name, text in found.items() if text and text != NOT_KNOWN}


def _namespace(rank: RankPlace, name: str) -> str:
    """Return whose a rank's namespace is: the node's, or its own."""
    if name not in rank.namespaces:
        return NOT_KNOWN
    return "the node's" if name in rank.node_namespaces else "own"


def _limits(stated: str) -> Mapping[str, str]:
    """Return each limit of a container, `none` if it has none; nothing if limits are not known."""
    values = dict(word.partition("=")[::2] for word in stated.split() if "=" in word)
    if stated and not values:
        return {}
    return {f"limit {name}": values.get(name, UNLIMITED) for name in LIMITS}
