"""The plants: a study whose environment `planted` differs from the baseline in one cause, and the cause's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from plants.neighbour import neighbour

PLANTED: Final = "planted"
PLAIN: Final = "plain"
MESSAGES: Final[Mapping[str, Any]] = {
    "messages": {
        "kernels": [
            {"latency": {"message_bytes": 8, "iterations": 1500, "warmup": 100}},
            {"bw": {"message_bytes": "1MiB", "window": 8, "iterations": 20, "warmup": 2}},
        ]
    }
}
ON_ONE_NODE: Final[Mapping[str, Any]] = {
    "messages": {
        "kernels": [
            {"latency": {"message_bytes": 8, "iterations": 400, "warmup": 20}},
            {"halo": {"message_bytes": "64KiB", "iterations": 200, "warmup": 20}},
        ]
    }
}
ON_ONE_CORE: Final[Mapping[str, Any]] = {
    "messages": {
        "kernels": [
            {"latency": {"message_bytes": 8, "iterations": 80, "warmup": 5}},
            {"halo": {"message_bytes": "64KiB", "iterations": 40, "warmup": 5}},
        ]
    }
}
COLLECTIVE: Final[Mapping[str, Any]] = {
    "messages": {
        "kernels": [
            {"latency": {"message_bytes": 8, "iterations": 1500, "warmup": 100}},
            {"allreduce": {"message_bytes": "64KiB", "iterations": 500, "warmup": 50}},
        ]
    }
}
LOSSY: Final[Mapping[str, Any]] = {
    "messages": {
        "kernels": [
            {"latency": {"message_bytes": 8, "iterations": 1500, "warmup": 100}},
            {"bw": {"message_bytes": "1MiB", "window": 8, "iterations": 4, "warmup": 1}},
        ]
    }
}
TWO_NODES: Final = "2x1"
ONE_NODE: Final = "1x2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """One planted cause: the settings of the baseline and of what is planted, and the causes that name it rightly.

    `{folder}` in a setting stands for the folder in which sources/ are compiled, which `beside` is told; it runs while
    the study is measured. If `together` is true, all `causes` are planted at the same time, and each must be proven.
    """

    name: str
    causes: frozenset[str]
    plain: Mapping[str, Any]
    planted: Mapping[str, Any]
    workloads: Mapping[str, Any] = field(default_factory=lambda: MESSAGES)
    placement: str | Mapping[str, int] = TWO_NODES
    lab: Mapping[str, Any] = field(default_factory=dict)
    turns: int = 10
    beside: Callable[[Path], AbstractContextManager[object]] = nullcontext
    together: bool = False


BRIDGE: Final = {"runtime": "bare", "network": "bridge"}
HOST: Final = {"runtime": "bare", "network": "host"}
IN_TWO: Final = {"runtime": "docker", "network": "bridge", "placement": {"containers_per_node": 2, "share": "none"}}


def _plants() -> Iterator[Plant]:
    yield Plant(
        name="drops",
        causes=frozenset({"drop"}),
        plain={**BRIDGE, "link": {"rate": "2Gbit"}},
        planted={**BRIDGE, "link": {"rate": "2Gbit", "queue": 40}},
        workloads=LOSSY,
    )
    yield Plant(
        name="rps",
        causes=frozenset({"reorder", "steering"}),
        plain=BRIDGE,
        planted={**BRIDGE, "link": {"rps": "all"}},
    )
    yield Plant(
        name="offload",
        causes=frozenset({"offload"}),
        plain=BRIDGE,
        planted={**BRIDGE, "link": {"offloads": "off"}},
    )
    yield Plant(
        name="packet-filter",
        causes=frozenset({"packet filter"}),
        plain=BRIDGE,
        planted={**BRIDGE, "link": {"br_netfilter": True, "conntrack": "track"}},
    )
    yield Plant(
        name="mtu",
        causes=frozenset({"mtu"}),
        plain=BRIDGE,
        planted={**BRIDGE, "link": {"mtu": 600}},
        lab={"wire": "segmented"},
    )
    yield Plant(
        name="shared-cores",
        causes=frozenset({"binding"}),
        plain=IN_TWO,
        planted={**IN_TWO, "placement": {**IN_TWO["placement"], "binding": "mpi-default"}},
        workloads=ON_ONE_CORE,
        placement=ONE_NODE,
        turns=1,
    )
    yield Plant(
        name="transport",
        causes=frozenset({"transport"}),
        plain={"runtime": "docker", "network": "bridge", "placement": {"containers_per_node": 2}},
        planted=IN_TWO,
        workloads=ON_ONE_NODE,
        placement=ONE_NODE,
    )
    yield Plant(
        name="cpu-quota",
        causes=frozenset({"CPU limit"}),
        plain=HOST,
        planted={**HOST, "placement": {"cpus_per_container": 0.6}},
        workloads={"compute": {"miniapp": "npb-ep:class=W"}},
        placement=ONE_NODE,
        turns=1,
    )
    yield Plant(
        name="memory-limit",
        causes=frozenset({"memory limit"}),
        plain=HOST,
        planted={**HOST, "placement": {"memory_per_container": "96MiB"}},
        workloads={"files": {"command": ["{folder}/read_files"]}},
        placement="1x1",
        turns=1,
    )
    yield Plant(
        name="neighbour",
        causes=frozenset({"interference"}),
        plain=HOST,
        planted={**HOST, "env": {"PLANTED_BESIDE": "neighbour"}},
        workloads={"compute": {"miniapp": "npb-ep:class=W"}},
        placement=ONE_NODE,
        turns=1,
        beside=lambda _: neighbour(),
    )
    yield Plant(
        name="collective",
        causes=frozenset({"collective"}),
        plain=HOST,
        planted={
            **HOST,
            "env": {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_allreduce_algorithm": "1"},
        },
        workloads=COLLECTIVE,
    )
    yield Plant(
        name="blas",
        causes=frozenset({"image"}),
        plain={**HOST, "env": {"LD_LIBRARY_PATH": "{openblas}"}},
        planted={**HOST, "env": {"LD_LIBRARY_PATH": "{blas}"}},
        workloads={"multiply": {"command": ["{folder}/multiply"]}},
        placement="1x1",
        turns=1,
    )
    yield Plant(
        name="seccomp",
        causes=frozenset({"system calls"}),
        plain=HOST,
        planted={**HOST, "env": {"LD_PRELOAD": "{folder}/slow_seccomp.so"}},
    )
    yield Plant(name="nothing", causes=frozenset(), plain=HOST, planted={**HOST, "env": {"PLANTED_BESIDE": "nothing"}})


def _further() -> Iterator[Plant]:
    """Yield cases that the classifier was not made with: weaker causes, other workloads, two causes at once, none."""
    yield Plant(
        name="further-conntrack",
        causes=frozenset({"packet filter"}),
        plain=BRIDGE,
        planted={**BRIDGE, "link": {"conntrack": "track"}},
        workloads={"messages": {"kernels": [{"barrier": {"iterations": 2000, "warmup": 100}}]}},
    )
    yield Plant(
        name="further-mtu",
        causes=frozenset({"mtu"}),
        plain=BRIDGE,
        planted={**BRIDGE, "link": {"mtu": 1100}},
        workloads={"messages": {"kernels": [{"alltoall": {"message_bytes": "256KiB", "iterations": 40}}]}},
        lab={"wire": "segmented"},
    )
    yield Plant(
        name="further-quota",
        causes=frozenset({"CPU limit"}),
        plain=HOST,
        planted={**HOST, "placement": {"cpus_per_container": 1.6}},
        workloads={"solve": {"miniapp": "npb-cg:class=W"}},
        placement=ONE_NODE,
        turns=1,
    )
    yield Plant(
        name="further-small-buffers",
        causes=frozenset({"unexplained"}),
        plain=BRIDGE,
        planted={**BRIDGE, "env": {"OMPI_MCA_btl_tcp_sndbuf": "8192", "OMPI_MCA_btl_tcp_rcvbuf": "8192"}},
    )
    yield Plant(
        name="further-docker",
        causes=frozenset({"transport"}),
        plain={"runtime": "docker", "network": "bridge", "placement": {"containers_per_node": 2}},
        planted=IN_TWO,
        workloads={"solve": {"miniapp": "npb-mg:class=S"}},
        placement=ONE_NODE,
        turns=1,
    )
    yield Plant(
        name="further-two-of-messages",
        causes=frozenset({"offload", "packet filter"}),
        plain=BRIDGE,
        planted={**BRIDGE, "link": {"offloads": "off", "br_netfilter": True, "conntrack": "track"}},
        workloads={"messages": {"kernels": [{"bw": {"message_bytes": "256KiB", "window": 16, "iterations": 40}}]}},
        together=True,
    )
    yield Plant(
        name="further-two-of-cores",
        causes=frozenset({"CPU limit", "image"}),
        plain={**HOST, "env": {"LD_LIBRARY_PATH": "{openblas}"}},
        planted={**HOST, "env": {"LD_LIBRARY_PATH": "{blas}"}, "placement": {"cpus_per_container": 0.7}},
        workloads={"multiply": {"command": ["{folder}/multiply"]}},
        placement="1x1",
        turns=1,
        together=True,
    )
    yield Plant(
        name="further-nothing",
        causes=frozenset(),
        plain={"runtime": "docker", "network": "host"},
        planted={"runtime": "docker", "network": "host", "env": {"PLANTED_BESIDE": "nothing"}},
        workloads={"solve": {"miniapp": "npb-lu:class=S"}},
        turns=1,
    )


PLANTS: Final[Mapping[str, Plant]] = {plant.name: plant for plant in _plants()}
FURTHER: Final[Mapping[str, Plant]] = {plant.name: plant for plant in _further()}
