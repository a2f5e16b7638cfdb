"""Read the facts of a node that explain its speed: packet filter rules and offloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tare.errors import TareError
from tare.networks.wiring.link import features
from tare.system.node import Node, gpus
from tare.system.process import find, run

UNKNOWN: Final = "unknown"
LIMIT_S: Final = 20.0


def facts_of(node: Node) -> Mapping[str, Any]:
    """Return the number of packet filter rules and the first data NIC's offloads; `UNKNOWN` where they cannot be read.

    A daemon's rules also slow down bare programs on its node, so that cost must not be attributed to the container.
    The GPUs of a node that is another machine are there as well.
    """
    enter = () if node.is_machine else ("nsenter", f"--net=/proc/{node.pid}/ns/net")
    nic = node.nics[0].name if node.nics else "lo"
    rules = _output(enter, "iptables-save")
    ruleset = _output(enter, "nft", "-j", "list", "ruleset")
    offloads = _output(enter, "ethtool", "-k", nic)
    return {
        "iptables rules": UNKNOWN if rules is None else sum(line.startswith("-A") for line in rules.splitlines()),
        "nft rules": UNKNOWN if ruleset is None else ruleset.count('{"rule"'),
        "offloads": UNKNOWN if offloads is None else features(offloads),
        **({"GPUs": gpus.find_gpus()} if node.machine else {}),
    }


def _output(enter: tuple[str, ...], name: str, *arguments: str) -> str | None:
    program = find(name)
    if program is None:
        return None
    try:
        result = run((*enter, program, *arguments), timeout_s=LIMIT_S, check=False)
    except TareError:
        return None
    return result.stdout if result.status == 0 else None
