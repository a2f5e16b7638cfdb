"""Messages are tried where others have made their way, and what does not arrive is told before the launches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tare.cluster import Site
from tare.deploy.hosts import Deployed
from tare.model import Cell, Environment, KernelSpec, Placement, Role, Workload
from tare.run import transport_probe
from tare.run.outcome import Ready

KERNELS = Workload(name="micro", kernels=(KernelSpec(kernel="latency", message_bytes=8),), time_limit_s=12.0)


def ready(*, hosts: int = 2, is_machine: bool = True, workload: Workload = KERNELS, **settings: Any) -> Ready:
    environment = Environment(name="it", **{"runtime": "bare", "network": "host", **settings})
    cell = Cell(
        key="g|it", group="g", role=Role.ENVIRONMENT, workload=workload, environment=environment, placement=Placement()
    )
    side = SimpleNamespace(
        pod=SimpleNamespace(node=SimpleNamespace(is_machine=is_machine)), endpoint=SimpleNamespace(mtu=1450)
    )
    up = cast("Deployed", SimpleNamespace(sides=(side,) * hosts, end_left=dict))
    return Ready(cell=cell, deployed=up, command=cast("Any", None), pods_s=0.0)


@pytest.mark.parametrize(
    ("settings", "tried"),
    [
        ({}, True),
        ({"is_machine": False}, False),
        ({"is_machine": False, "network": "cni:/site.conflist"}, True),
        ({"hosts": 1}, False),
        ({"transport": "shm"}, False),
        ({"mpi": "fake", "runtime": "fake"}, False),
    ],
)
def test_only_what_tare_did_not_make_is_tried(settings: dict[str, Any], tried: bool) -> None:
    one = ready(**settings)
    assert transport_probe.tries(one.cell, one.deployed) is tried


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ([True], ""),
        ([False, True], "those of 64 KiB did not within 12 s: packets of its MTU, 1450, are lost on the way"),
        ([False, False], "messages of 8 bytes between its hosts did not arrive within 12 s"),
    ],
)
def test_large_messages_are_told_from_small_ones(ends: list[bool], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float]] = []

    def ends_(_site: Site, cell: Cell, _up: Deployed, _agent: object, limit_s: float) -> bool:
        asked.append((cell.workload.name, limit_s))
        return ends[len(asked) - 1]

    monkeypatch.setattr(transport_probe, "_ends", ends_)
    one = ready()
    found = transport_probe.unreached(cast("Site", None), [one, one], cast("Any", None))
    assert asked == [("question", 12.0), ("short", 12.0)][: len(ends)], "once for an environment and placement"
    assert (found == {}) if not told else told in found[one.pair]
