"""Read the counters of interfaces and of adapters' ports."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from tare.counters.files import read_text
from tare.host.devices import CLASSES

Counts = tuple[int, int, int, int]
"""Bytes and packets received, bytes and packets sent."""
PORT_COUNTERS: Final = ("port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets")
PORT_UNIT: Final = 4
"""Bytes per unit of a port's data counters (InfiniBand specification, PortCounters)."""
COLUMNS: Final = 16
LOST: Final = {"rx_errors": 2, "rx_dropped": 3, "tx_errors": 10, "tx_dropped": 11}
"""The columns of /proc/net/dev that count what an interface did not deliver."""


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


def lost(found: dict[str, tuple[int, ...]], names: Collection[str]) -> dict[str, int]:
    """Return what the interfaces of these names did not deliver, summed; `found` is what `parse` returned."""
    watched = [found[name] for name in names if found.get(name)]
    return {word: sum(columns[at] for columns in watched) for word, at in LOST.items()} if watched else {}


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
