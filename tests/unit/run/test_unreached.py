"""Messages are tried where others have made their way, and what does not arrive is told before the launches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tare.clusters import Site
from tare.model import Cell, Environment, KernelSpec, Placement, Role, Workload
from tare.run import transport_probe
from tare.run.deploy.hosts import Deployed
from tare.run.outcome import ReadyCell

KERNELS = Workload(name="micro", kernels=(KernelSpec(kernel="latency", message_bytes=8),), time_limit_s=12.0)


def ready(*, hosts: int = 2, is_machine: bool = True, workload: Workload = KERNELS, **settings: Any) -> ReadyCell:
    environment = Environment(name="it", **{"runtime": "bare", "network": "host", **settings})
    cell = Cell(
        key="g|it", group="g", role=Role.ENVIRONMENT, workload=workload, environment=environment, placement=Placement()
    )
    pod = SimpleNamespace(node=SimpleNamespace(is_machine=is_machine), endpoint=SimpleNamespace(mtu=1450))
    up = cast("Deployed", SimpleNamespace(pods=(pod,) * hosts, end_left=dict))
    return ReadyCell(cell=cell, deployed=up, command=cast("Any", None), pods_s=0.0)


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


def test_an_environment_and_placement_are_tried_once_and_what_arrives_is_no_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def why(_site: Site, cell: Cell, _up: Deployed, _agent: object) -> str:
        asked.append(cell.environment.network)
        return "lost" if cell.environment.network == "host" else ""

    monkeypatch.setattr(transport_probe, "why_unreached", why)
    lost, well = ready(), ready(network="bridge")
    assert transport_probe.unreached(cast("Site", None), [lost, lost, well], cast("Any", None)) == {lost.pair: "lost"}
    assert asked == ["host", "bridge"]


@pytest.mark.parametrize(
    ("hangs", "counted", "launches", "told"),
    [
        ([True, False], {}, 2, ""),
        ([True, True], {}, 2, "did not arrive within 12 s"),
        (
            [True, False],
            {"TcpRetransSegs": 9.0},
            1,
            "larger packets are lost (9 sent again); give its network an MTU that the way carries: it is 1450 now",
        ),
        (
            [True, False],
            {"TcpExtTCPSynRetrans": 3.0, "TcpRetransSegs": 3.0},
            1,
            "TCP connections are not established (3 tries without an answer)",
        ),
        ([False], {}, 1, ""),
    ],
)
def test_a_launch_that_hangs_is_tried_again_unless_it_is_a_closed_port_or_an_mtu_that_is_too_large(
    hangs: list[bool], counted: dict[str, float], launches: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(hangs)
    monkeypatch.setattr(transport_probe.job, "make_launch", lambda *_: None)
    monkeypatch.setattr(transport_probe.job, "command_of", lambda *_, **__: None)
    monkeypatch.setattr(transport_probe.job, "started", lambda *_, **__: SimpleNamespace(timed_out=left.pop(0)))
    monkeypatch.setattr(transport_probe.monitor, "counters", lambda *_: counted)
    one = ready()
    one.deployed.counters = lambda *_: None  # type: ignore[method-assign, assignment, misc]
    reason = transport_probe.why_unreached(cast("Site", None), one.cell, one.deployed, cast("Any", None))
    assert (told in reason, bool(reason)) == (True, bool(told))
    assert len(hangs) - len(left) == launches
