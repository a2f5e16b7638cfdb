"""Results folders of known cost, written by the store: several sites, days and versions."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from tare.model import (
    Completed,
    Environment,
    Failed,
    KernelSpec,
    LabSpec,
    Metric,
    MetricKind,
    Outcome,
    Placement,
    Repetition,
    Study,
    Trial,
    TrialKey,
    Workload,
)
from tare.store.writer import Store
from tare.study.plan.cells import expand

LATENCY, BW = "latency:8", "bw:1048576"
FACTS: Mapping[str, Any] = {
    "identity": {"kernel": "6.1.0-1", "cpu": "Xeon", "cores": 8, "mpi": {"openmpi": "Open MPI 4.1.4"}, "kernels": "k1"},
    "memory_bytes": 16 << 30,
    "os": "Debian GNU/Linux 12",
    "processor": {"microcode": "0x1", "MHz": "2500.1", "mitigations": {"meltdown": "Not affected"}},
    "sysctls": {"net.core.rmem_max": "212992"},
    "versions": {"dockerd": "20.10.24", "podman": "4.3.1", "compiler": "12.2.0"},
    "nodes": {"with a daemon": {"iptables rules": 15, "offloads": {"tso": "on"}}},
}
STUDY = Study(
    name="s",
    cluster="lab",
    lab=LabSpec(),
    baseline="bare",
    environments=(
        Environment(name="bare", runtime="bare", network="host"),
        Environment(name="docker", runtime="docker", network="bridge", image="debian-openmpi"),
    ),
    placements=(Placement(),),
    workloads=(Workload(name="micro", kernels=(KernelSpec(kernel="latency", message_bytes=8),)),),
    repetition=Repetition(rounds=10, max_rounds=10),
)
GROUP = "micro / 2n x 1r"


def write(
    path: Path,
    *,
    factors: Mapping[str, float] | None = None,
    machine: float = 1.0,
    study: Study = STUDY,
    facts: Mapping[str, Any] = FACTS,
    began: float = 1.79e9,
    rounds: int = 10,
    seed: int = 1,
    spread: float = 0.01,
    fails: Mapping[str, int] | None = None,
    launched: Mapping[str, Mapping[str, str]] | None = None,
    text: str = "",
) -> Path:
    """Write a folder whose launches cost 10 us x machine x the factor of their environment; return its path.

    The first `fails` rounds of an environment fail. `launched` are facts of an environment's launches.
    """
    dice = random.Random(seed)
    plan = expand(study, lambda _environment, _placement: None)
    with mock.patch("os.fdatasync"), Store.create_or_open(path, plan, dict(facts)) as store:
        for round_ in range(rounds):
            shared = dice.gauss(0, spread)
            for place, cell in enumerate(plan.cells):
                name = cell.environment.name
                cost = 1e-5 * machine * (factors or {}).get(name, 1.0) * math.exp(shared + dice.gauss(0, spread))
                outcome: Outcome = Completed(metrics=(_latency(cost, text), _bandwidth(cost)))
                if round_ < (fails or {}).get(name, 0):
                    outcome = Failed(reason="it ended with status 9", status=9)
                store.append(
                    Trial(
                        key=TrialKey(cell=cell.key, round=round_, block=0, attempt=0),
                        position=place,
                        started_unix_s=began + 10 * round_ + place,
                        elapsed_s=1.0,
                        outcome=outcome,
                        mpi_library="Open MPI 4.1.4",
                        facts=dict((launched or {}).get(name, {"mtu": "1500"})),
                    )
                )
    return path


def _latency(cost: float, text: str = "") -> Metric:
    return Metric(key=LATENCY, label=text or "latency 8 B", kind=MetricKind.COST, value=cost, message_bytes=8)


def _bandwidth(cost: float) -> Metric:
    return Metric(key=BW, label="bw 1 MiB", kind=MetricKind.RATE, value=50 * cost, done_per_sample=float(1 << 20))


def changed(*path: str, value: Any) -> dict[str, Any]:
    """Return FACTS with another value at a path of keys."""
    tree = {**FACTS}
    inner = tree
    for key in path[:-1]:
        inner[key] = {**inner.get(key, {})}
        inner = inner[key]
    inner[path[-1]] = value
    return tree


def with_link(**link: Any) -> Study:
    """Return the study with link settings of docker's environment."""
    bare, docker = STUDY.environments
    return replace(STUDY, environments=(bare, replace(docker, link=replace(docker.link, **link))))
