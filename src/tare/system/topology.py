"""Read where this machine's CPUs are: cores, NUMA nodes, sockets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tare.model.topology import HardwareThread

SYSTEM: Final = Path("/sys/devices/system")


def read_topology(cpus: Iterable[int], system: Path = SYSTEM) -> tuple[HardwareThread, ...]:
    """Return the location of each of these CPUs, as the kernel reports it.

    Some virtual machines and containers hide it. Missing facts get the simplest value: a CPU is its own core, and all
    are in one socket and one NUMA node.
    """
    numa = _numa_nodes(system)
    return tuple(_thread(cpu, numa, system) for cpu in cpus)


def in_words(threads: Sequence[HardwareThread]) -> str:
    """Return a summary of the CPUs, as in `2 sockets, 2 NUMA nodes, 16 cores, 32 hardware threads`."""
    counts = (
        (len({thread.socket for thread in threads}), "socket"),
        (len({thread.numa for thread in threads}), "NUMA node"),
        (len({thread.core for thread in threads}), "core"),
        (len(threads), "hardware thread"),
    )
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in counts)


def parse_list(text: str) -> tuple[int, ...]:
    """Parse a list of numbers in the kernel's format: `0-3,8`."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def _thread(cpu: int, numa: dict[int, int], system: Path) -> HardwareThread:
    folder = system / "cpu" / f"cpu{cpu}" / "topology"
    siblings = parse_list(_text(folder / "core_cpus_list") or _text(folder / "thread_siblings_list")) or (cpu,)
    socket = _text(folder / "physical_package_id")
    return HardwareThread(
        cpu=cpu,
        core=min(siblings),
        numa=numa.get(cpu, 0),
        socket=max(0, int(socket or 0)),  # -1: unknown to the kernel
    )


def _numa_nodes(system: Path) -> dict[int, int]:
    numa_nodes: dict[int, int] = {}
    for folder in (system / "node").glob("node[0-9]*"):
        for cpu in parse_list(_text(folder / "cpulist")):
            numa_nodes[cpu] = int(folder.name.removeprefix("node"))
    return numa_nodes


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text().strip()
    return ""
