"""Plants whose obvious suspect is wrong: what is planted beside it is the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from plants.neighbour import neighbour
from plants.plants import BRIDGE, HOST, ONE_NODE, Plant
from plants.slow_disk import slow_disk

ENV: Final = {"LD_PRELOAD": "{folder}/limit_files.so", "PLANTED_FILES": "256"}
FILES: Final = {**HOST, "env": ENV}
ON_CORES: Final = {"LD_PRELOAD": "{folder}/on_cores.so", "PLANTED_CORES": "2"}
TWO_CORES: Final = {**HOST, "env": ON_CORES}
COMPUTING: Final[Mapping[str, Any]] = {"compute": {"miniapp": "npb-ep:class=W"}}


def _misleading() -> Iterator[Plant]:
    yield Plant(  # suspected: the packet filter of the daemon, whose rules frames of a bridge do not pass
        name="misleading-daemon",
        causes=frozenset({"offload"}),
        plain=BRIDGE,
        planted={**BRIDGE, "daemon": "docker", "link": {"offloads": "off"}},
    )
    yield Plant(  # suspected: a memory limit, as the machine scans pages; there is none
        name="misleading-memory",
        causes=frozenset({"interference"}),
        plain=HOST,
        planted={**HOST, "env": {"PLANTED_BESIDE": "neighbour"}},
        workloads=COMPUTING,
        placement=ONE_NODE,
        turns=1,
        beside=lambda _: neighbour(hungry=True),
    )
    yield Plant(  # suspected: the tunnel, the packet filter, the path; the time is sleep
        name="misleading-names",
        causes=frozenset({"name resolution"}),
        plain=HOST,
        planted={"runtime": "docker", "network": "overlay"},
        workloads={"look-up": {"command": ["{folder}/look_up"]}},
        turns=1,
    )
    yield Plant(  # suspected: other programs, the image
        name="misleading-files",
        causes=frozenset({"limits"}),
        plain=FILES,
        planted={**FILES, "env": {**ENV, "PLANTED_FILES": "20000"}},
        workloads={"close": {"command": ["{folder}/close_files"]}},
        placement=ONE_NODE,
        turns=1,
    )
    yield Plant(  # suspected: the tunnel, the packet filter, the path, the image; ranks wait for a disk
        name="misleading-disk",
        causes=frozenset({"storage"}),
        plain={"runtime": "bare", "network": "host"},
        planted={"runtime": "docker", "network": "overlay", "binds": ["{folder}/slow:{folder}/data:ro"]},
        workloads={"read": {"command": ["{folder}/read_first", "{folder}/data/input"]}},
        turns=1,
        beside=slow_disk,
    )
    yield Plant(  # suspected: other programs, as ranks wait for cores
        name="misleading-threads",
        causes=frozenset({"threads"}),
        plain=TWO_CORES,
        planted={**TWO_CORES, "env": {**ON_CORES, "PLANTED_CORES": "1"}},
        workloads={"meet": {"command": ["{folder}/two_threads"]}},
        placement={"nodes": 1, "ranks_per_node": 1, "threads_per_rank": 2},
        turns=1,
    )


MISLEADING: Final[Mapping[str, Plant]] = {plant.name: plant for plant in _misleading()}
