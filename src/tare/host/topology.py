"""Read where this machine's CPUs are: cores, NUMA nodes, sockets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tare.model.placement import HardwareThread

SYSTEM: Final = Path("/sys/devices/system")


def read_topology(cpus: Iterable[int], system: Path = SYSTEM) -> tuple[HardwareThread, ...]:
    """Return where each of these CPUs is, as the kernel tells it.

    What it does not tell (some virtual machines and containers hide it) is taken as the plainest: a CPU that is a core
    of its own, all of them in one socket and one NUMA node.
    """
    numa = _numa_nodes(system)
    return tuple(_thread(cpu, numa, system) for cpu in cpus)


def in_words(threads: Sequence[HardwareThread]) -> str:
    """Return what CPUs there are, as `2 sockets, 2 NUMA nodes, 16 cores, 32 hardware threads`."""
    counts = (
        (len({each.socket for each in threads}), "socket"),
        (len({each.numa for each in threads}), "NUMA node"),
        (len({each.core for each in threads}), "core"),
        (len(threads), "hardware thread"),
    )
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in counts)


def parse_list(text: str) -> tuple[int, ...]:
    """Return the numbers of a list as the kernel writes it: `0-3,8`."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _thread(cpu: int, numa: dict[int, int], system: Path) -> HardwareThread:
    folder = system / "cpu" / f"cpu{cpu}" / "topology"
    siblings = parse_list(_text(folder / "core_cpus_list") or _text(folder / "thread_siblings_list")) or (cpu,)
    socket = _text(folder / "physical_package_id")
    return HardwareThread(
        cpu=cpu,
        core=min(siblings),
        numa=numa.get(cpu, 0),
        socket=max(0, int(socket or 0)),  # -1: the kernel does not know
    )


def _numa_nodes(system: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for folder in (system / "node").glob("node[0-9]*"):
        for cpu in parse_list(_text(folder / "cpulist")):
            found[cpu] = int(folder.name.removeprefix("node"))
    return found


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text().strip()
    return ""
