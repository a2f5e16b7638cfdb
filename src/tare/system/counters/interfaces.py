"""Read the counters of interfaces and of adapters' ports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tare.system.devices import CLASSES
from tare.system.node.kernel_files import read_text

Counts = tuple[int, int, int, int]
"""Bytes and packets received, bytes and packets sent."""
PORT_COUNTERS: Final = ("port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets")
PORT_UNIT: Final = 4
"""Bytes per unit of a port's data counters (InfiniBand specification, PortCounters)."""
COLUMNS: Final = 16
LOST: Final = {"rx_errors": 2, "rx_dropped": 3, "tx_errors": 10, "tx_dropped": 11}
"""The columns of /proc/net/dev that count what an interface did not deliver."""
USED: Final = (0, 1, 8, 9, *LOST.values())


def parse(text: str) -> dict[str, tuple[int, ...]]:
    """Return the columns of each interface in the text of /proc/net/dev."""
    return {name: columns for name, row in rows(text).items() if (columns := columns_of(row))}


def rows(text: str) -> dict[str, str]:
    """Return the row of each interface in the text of /proc/net/dev, as text: few of them are used."""
    pairs = (line.partition(":") for line in text.splitlines()[2:])
    return {name.strip(): row for name, colon, row in pairs if colon}


def columns_of(row: str) -> tuple[int, ...]:
    """Return the columns of an interface's row, empty if some are missing."""
    columns = row.split()
    return tuple(map(int, columns[:COLUMNS])) if len(columns) >= COLUMNS else ()


def counts_of(columns: tuple[int, ...]) -> Counts:
    """Return bytes and packets of an interface's columns."""
    return columns[0], columns[1], columns[8], columns[9]


@lru_cache(maxsize=256)
def counted(names: frozenset[str]) -> Callable[[str], dict[object, int]]:
    """Return what parses the text of /proc/net/dev into the columns that are used of these interfaces.

    The numbers are by name and column. Equal names have the same function, so that what it found is shared.
    """

    def parse_counted(text: str) -> dict[object, int]:
        found: dict[object, int] = {}
        for name in names:
            columns = _row_of(name, text).split()
            if len(columns) >= COLUMNS:
                found.update({(name, at): int(columns[at]) for at in USED})
        return found

    return parse_counted


def _row_of(name: str, text: str) -> str:
    """Return the row of an interface in the text of /proc/net/dev, "" if there is none. The other rows are not parsed.

    A row begins with blanks; another name may end with this one.
    """
    label = f"{name}:"
    at = text.find(label)
    while at > 0 and text[at - 1] not in " \n":
        at = text.find(label, at + 1)
    return text[at + len(label) :].partition("\n")[0] if at > 0 else ""


def counts_in(numbers: Mapping[Any, float], name: str) -> Counts | None:
    """Return bytes and packets of an interface from what `counted` parsed, None if it is not there."""
    if (name, 0) not in numbers:
        return None
    return int(numbers[name, 0]), int(numbers[name, 1]), int(numbers[name, 8]), int(numbers[name, 9])


def lost(numbers: Mapping[Any, float], names: Collection[str]) -> dict[str, float]:
    """Return what the interfaces of these names did not deliver, summed, from what `counted` parsed."""
    present = [name for name in names if (name, 0) in numbers]
    return {word: sum(numbers[name, at] for name in present) for word, at in LOST.items()} if present else {}


def interface_counters(pid: int) -> dict[str, Counts]:
    """Return (rx bytes, rx packets, tx bytes, tx packets) by interface, in a process's network namespace.

    Process 0 is this one.
    """
    return {name: counts_of(columns) for name, columns in parse(read_text(f"/proc/{pid or 'self'}/net/dev")).items()}


def port_counters(port: str, classes: Path = CLASSES) -> Counts | None:
    """Return the same counters for an adapter's port (`mlx5_0:1`), None if they cannot be read."""
    adapter, _, number = port.partition(":")
    folder = classes / "infiniband" / adapter / "ports" / number / "counters"
    texts = [read_text(str(folder / name)).strip() for name in PORT_COUNTERS]
    if not all(text.isdigit() for text in texts):
        return None
    received, packets_in, sent, packets_out = map(int, texts)
    return received * PORT_UNIT, packets_in, sent * PORT_UNIT, packets_out
