"""Read the counters of TCP, UDP and IP that tell drops, reordering, fragments and timeouts, by their nstat names."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

NAMES: Final = frozenset(
    {
        "IpForwDatagrams", "IpFragCreates", "IpFragFails", "IpReasmReqds",
        "TcpInSegs", "TcpOutSegs", "TcpRetransSegs",
        "TcpExtTCPBacklogDrop", "TcpExtTCPDSACKRecv", "TcpExtTCPLostRetransmit", "TcpExtTCPMTUPFail",
        "TcpExtTCPMTUPSuccess", "TcpExtTCPOFOQueue", "TcpExtTCPRcvQDrop", "TcpExtTCPSACKReorder",
        "TcpExtTCPSynRetrans", "TcpExtTCPTimeouts", "UdpRcvbufErrors",
    }
)  # fmt: skip
OF_PATH: Final = "Ip:"
"""What begins the first line of /proc/net/snmp, with the counters of packets that a node without any rank forwards."""


def parse(text: str) -> dict[str, int]:
    """Return the counters in the text of /proc/net/snmp or netstat.

    The text has pairs of lines: the names of a protocol's counters, and their values.
    """
    found: dict[str, int] = {}
    lines = text.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        columns = _columns(names)
        if columns:
            split = values.split(None, columns[-1][1] + 1)
            found.update({name: int(split[at]) for name, at in columns if at < len(split)})
    return found


def parse_path(text: str) -> dict[str, int]:
    """Return those of the counters that concern packets which a node without any rank forwards."""
    lines = text.split("\n", 2)
    return parse("\n".join(lines[:2])) if lines[0].startswith(OF_PATH) else {}


@lru_cache(maxsize=64)
def _columns(names: str) -> tuple[tuple[str, int], ...]:
    """Return the name and the column of each counter of a line of names; kernels have a few different lines."""
    prefix = names.partition(":")[0]
    named = ((f"{prefix}{name}", at) for at, name in enumerate(names.split()) if at)
    return tuple((name, at) for name, at in named if name in NAMES)
