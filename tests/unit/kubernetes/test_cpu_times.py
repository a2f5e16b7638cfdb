"""The CPU times of a lab's nodes, which are one machine, count once; those of a cluster's nodes each for itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node
from tare.counters.monitor import CounterValues, Moment, merged
from tare.kubernetes.mpi_jobs.counts import JobCounts
from tare.kubernetes.node import KubernetesNode


def node(name: str, lab_node: Any) -> KubernetesNode:
    gate: Any = SimpleNamespace(settle=lambda: None, prepare=lambda _: None)
    nothing: Any = None
    made = KubernetesNode(make_node(name=name, machine=name), nothing, nothing, gate, "", lab_node)
    service = SimpleNamespace(counters=lambda *_: CounterValues(machine="pod", busy_s=100.0, steal_s=30.0))
    deployment: Any = SimpleNamespace(services=[service], specs=(), passes=(), jobs=JobCounts())
    made._deployments["study"] = deployment
    return made


@pytest.mark.parametrize(("lab_node", "busy_s"), [(None, 200.0), (make_node(), 100.0)])
def test_cpu_times_are_those_of_machines(lab_node: Any, busy_s: float) -> None:
    read = [node(name, lab_node).counters("study") for name in ("alpha", "beta")]
    assert merged(read, Moment(tare_s=0.0)).busy_s == busy_s
