"""A launch whose counters may not be read completes and says so; traffic that refutes the cell stays invalid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodes import make_node
from tare.counters.monitor import Unread
from tare.model import Cell, Completed, Environment, InterfaceTraffic, Invalid, Outcome, Placement, RankPlace, Role
from tare.run import outcome
from tare.run.outcome import Ready, judge, proof_gaps
from tare.run.proof import LOWER_BOUND_ONLY
from tare.workloads import Parsed
from tare.workloads.output import Payload
from unit.summaries import MICRO, latency

SENT = 1 << 20
NODES = tuple(make_node(i, cores=(i,), boot_id=f"b{i}") for i in range(2))
RANKS = tuple(
    RankPlace(rank=i, host=f"b{i}/n{i}", hostname=f"n{i}", pid=9 + i, cpus=(i,), shared_memory_ranks=(i,))
    for i in range(2)
)
PARSED = Parsed(
    metrics=(latency(1e-6),),
    ranks=RANKS,
    payload=Payload(low_bytes=SENT, high_bytes=SENT, messages=1, known=True),
    mpi_library="Open MPI 4.1.4",
    init_s=0.1,
    measured_s=0.2,
)
CELL = Cell(
    key="micro/overlay",
    group="micro",
    role=Role.ENVIRONMENT,
    workload=MICRO,
    environment=Environment(name="overlay", runtime="docker", network="overlay"),
    placement=Placement(nodes=2, ranks_per_node=1),
)
CLOSED = tuple(Unread(node=f"n{i}", interface="data0", role="data NIC", why="permission denied") for i in range(2))


def carried(volume: int) -> tuple[InterfaceTraffic, ...]:
    return tuple(
        InterfaceTraffic(
            node=f"n{i}", interface="data0", role="data NIC", rx_bytes=volume, tx_bytes=0, rx_packets=1, tx_packets=0
        )
        for i in range(2)
    )


@pytest.fixture(autouse=True)
def parsed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = SimpleNamespace(parse=lambda *_: PARSED)
    monkeypatch.setattr(outcome, "plugin_of", lambda _: plugin)


def judged(
    traffic: tuple[InterfaceTraffic, ...], closed: tuple[Unread, ...] = (), *, shared: bool = False
) -> tuple[Outcome, tuple[str, str]]:
    sides = tuple(SimpleNamespace(pod=SimpleNamespace(node=node)) for node in NODES)
    ready = Ready(
        cell=CELL,
        deployed=cast("Any", SimpleNamespace(sides=sides, shares_nics=shared)),
        command=cast("Any", None),
        pods_s=0.0,
    )
    result = SimpleNamespace(
        stdout="", stderr="", stderr_tail="", status=0, timed_out=False, flooded=False, began_s=1.0, elapsed_s=1.0
    )
    made, parsed = judge(ready, cast("Any", result), traffic, closed)
    return made, proof_gaps(ready, made, parsed, traffic, closed)


def test_counters_that_may_not_be_read_let_the_trial_complete_with_the_statement() -> None:
    made, (unproven, partly_proven) = judged((), CLOSED)
    assert isinstance(made, Completed)
    assert unproven.startswith("treatment not proven: the counters of data0 of n0, data0 of n1 cannot be read")
    assert partly_proven == ""


def test_an_interface_that_does_not_exist_is_invalid_and_states_nothing_else() -> None:
    made, gaps = judged(())
    assert isinstance(made, Invalid)
    assert gaps == ("", "")


@pytest.mark.parametrize(
    ("volume", "shared", "completes"),
    [
        (SENT, False, True),
        (SENT // 2, False, False),
        (SENT * 200, False, False),
        (SENT, True, True),
        (SENT // 2, True, False),
        (SENT * 200, True, True),
    ],
)
def test_traffic_that_is_read_still_refutes_the_cell(volume: int, shared: bool, completes: bool) -> None:
    made, gaps = judged(carried(volume), shared=shared)
    assert isinstance(made, Completed if completes else Invalid)
    assert gaps == ("", LOWER_BOUND_ONLY if shared and completes else "")
