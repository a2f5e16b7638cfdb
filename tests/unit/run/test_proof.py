"""The treatment is proven or the cell is invalid: places, cores, interfaces, memory; what is not read is stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nodes import make_node
from tare.model import (
    Cell,
    Completed,
    Environment,
    InterfaceTraffic,
    Invalid,
    Outcome,
    Placement,
    RankOrder,
    RankPlace,
    Role,
)
from tare.model.topology import HardwareThread
from tare.run import outcome, proof
from tare.run.outcome import ReadyCell, judge, proof_gaps
from tare.run.proof import LOWER_BOUND_ONLY, check_places, check_traffic, check_transport, core_sharers
from tare.system.counters.monitor import Observed, UnreadInterface
from tare.system.node import SILENT_ROLE, Node
from tare.workloads import Parsed
from tare.workloads.output import Payload
from unit.summaries import MICRO, latency

BOOT_IDS = ("b0", "b1", "b10")


def nodes_of(placement: Placement, machine: str = "") -> list[Node]:
    """Return the nodes of a launch, with the cores that `rank_places` has; `machine` {} stands for the node's name."""
    each = placement.ranks_per_node
    return [
        make_node(i, cores=tuple(range(i * each, (i + 1) * each)), boot_id=BOOT_IDS[i], machine=machine.format(f"n{i}"))
        for i in range(placement.nodes)
    ]


def rank_places(placement: Placement) -> list[RankPlace]:
    """Return ranks as a right launch has them: by block, each on a core of its own."""
    return [
        RankPlace(
            rank=rank,
            host=f"{BOOT_IDS[node]}/n{node}",
            hostname=f"n{node}",
            pid=100 + rank,
            cpus=(rank,),
            shared_memory_ranks=tuple(range(node * placement.ranks_per_node, (node + 1) * placement.ranks_per_node)),
        )
        for rank in range(placement.ranks)
        for node in [rank // placement.ranks_per_node]
    ]


TWO = Placement(nodes=2, ranks_per_node=2)
placements = st.builds(Placement, nodes=st.integers(1, 3), ranks_per_node=st.integers(1, 4))


# --- places -------------------------------------------------------------------------------------------------------


@given(placements)
def test_a_right_launch_is_proven(placement: Placement) -> None:
    ranks = rank_places(placement)
    assert check_places(ranks, placement, nodes=nodes_of(placement)) is None
    assert check_transport(ranks) is None


@given(placements, st.data())
def test_a_rank_on_another_node_is_found_and_named(placement: Placement, data: st.DataObject) -> None:
    assume(placement.nodes > 1)
    ranks = rank_places(placement)
    moved = data.draw(st.sampled_from(ranks))
    other = data.draw(st.sampled_from([r for r in ranks if r.host != moved.host]))
    ranks[moved.rank] = replace(moved, host=other.host, hostname=other.hostname)
    reason = check_places(ranks, placement, nodes=nodes_of(placement))
    assert f"rank {moved.rank} ran on {other.hostname}" in reason


def test_ranks_that_go_to_the_nodes_in_turn_are_proven_by_that_order_alone() -> None:
    filled, in_turn = TWO, replace(TWO, rank_order=RankOrder.CYCLIC)
    ranks = rank_places(filled)
    ranks[1], ranks[2] = (replace(ranks[2], rank=1), replace(ranks[1], rank=2))
    assert check_places(ranks, in_turn, nodes=nodes_of(in_turn)) is None
    assert "rank 1 ran on n1" in str(check_places(ranks, filled, nodes=nodes_of(filled)))
    assert "rank 1 ran on n0" in str(check_places(rank_places(filled), in_turn, nodes=nodes_of(in_turn)))


def test_ranks_are_counted_and_a_number_beyond_the_job_or_a_boot_id_that_only_begins_alike_refutes() -> None:
    ranks = rank_places(Placement())
    ranks[1] = replace(ranks[1], host="b10/n2", hostname="n2")
    assert check_places(ranks, Placement(), nodes=nodes_of(Placement())) is not None
    ranks = rank_places(TWO)
    assert check_places(ranks[:-1], TWO, nodes=nodes_of(TWO)) == "3 ranks ran where the placement has 4"
    assert check_places([*ranks, ranks[0]], TWO, nodes=nodes_of(TWO)) == "5 ranks ran where the placement has 4"
    ranks = rank_places(TWO)
    ranks[3] = replace(ranks[3], rank=77)
    assert "rank 77" in str(check_places(ranks, TWO, nodes=nodes_of(TWO)))


# --- cores --------------------------------------------------------------------------------------------------------

masks = st.lists(st.sets(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=5)


@given(masks)
def test_two_ranks_share_a_core_exactly_when_their_masks_meet(cores: list[set[int]]) -> None:
    node = nodes_of(TWO)[0]
    ranks = [(replace(rank_places(TWO)[0], rank=i, cpus=tuple(sorted(own))), node) for i, own in enumerate(cores)]
    meet = sum(map(len, cores)) > len(set().union(*cores))
    assert (proof.shared_cores(ranks) is not None) == meet


def test_shared_cores_and_cores_of_another_node_are_named_and_allowed_only_if_the_placement_asks() -> None:
    ranks = rank_places(TWO)
    ranks[1] = replace(ranks[1], cpus=(1, 0))
    assert check_places(ranks, TWO, nodes=nodes_of(TWO)) == "ranks 0 and 1 share core 0: their CPU masks overlap"
    ranks = rank_places(TWO)
    ranks[2] = replace(ranks[2], cpus=(2, 7))
    reason = check_places(ranks, TWO, nodes=nodes_of(TWO))
    assert reason == "rank 2 may run on core 7, which is none of those of its node n1"
    ranks = [replace(rank, cpus=(0, 1)) for rank in rank_places(TWO)]
    assert check_places(ranks, TWO, nodes=nodes_of(TWO)) is not None
    assert check_places(ranks, replace(TWO, oversubscribe=True), nodes=nodes_of(TWO)) is None


@pytest.mark.parametrize(("machine", "shared"), [("", True), ("{}", False)])
def test_one_number_on_two_machines_is_two_cores_and_on_two_nodes_of_one_it_is_one(machine: str, shared: bool) -> None:
    ranks = [replace(rank, cpus=(rank.rank % 2,)) for rank in rank_places(TWO)]
    nodes = [replace(node, cores=(0, 1)) for node in nodes_of(TWO, machine)]
    reason = check_places(ranks, TWO, nodes=nodes)
    assert reason == ("ranks 0 and 2 share core 0: their CPU masks overlap" if shared else None)


SIBLINGS = tuple(HardwareThread(cpu=cpu, core=cpu % 2) for cpu in range(4))
"""Two cores of two hardware threads: 0 and 2, 1 and 3."""


@pytest.mark.parametrize(
    ("cpus", "machine", "sharers"),
    [
        ([(0,), (1,)], "", {0: (), 1: ()}),
        ([(0,), (2,)], "", {0: (1,), 1: (0,)}),
        ([(0, 2), (1, 3)], "", {0: (), 1: ()}),
        ([(0,), (1,), (2,), (3,)], "", {0: (2,), 1: (3,), 2: (0,), 3: (1,)}),
        ([(0, 1), (2,), (3,)], "", {0: (1, 2), 1: (0,), 2: (0,)}),
        ([(0,), (2,)], "{}", {0: (), 1: ()}),
        ([(0, 2), (2,)], "", {0: (), 1: ()}),
    ],
    ids=["two cores", "one core", "whole cores", "crowded", "two and one", "two machines", "the same thread"],
)
def test_ranks_on_hardware_threads_of_one_core_are_found(
    cpus: list[tuple[int, ...]], machine: str, sharers: dict[int, tuple[int, ...]]
) -> None:
    nodes = [replace(node, cores=(0, 1, 2, 3), layout=SIBLINGS) for node in nodes_of(TWO, machine)]
    placed = [(replace(rank_places(TWO)[i], cpus=own), nodes[i % 2]) for i, own in enumerate(cpus)]
    assert core_sharers(placed) == sharers


def test_where_no_layout_is_known_or_memory_is_not_shared_nothing_is_refuted() -> None:
    placed = [(rank, nodes_of(TWO)[0]) for rank in rank_places(TWO)]
    assert not any(core_sharers(placed).values())
    ranks = [replace(rank, shared_memory_ranks=(rank.rank,)) for rank in rank_places(TWO)]
    assert check_transport(ranks) is None


# --- traffic ------------------------------------------------------------------------------------------------------


def carried(node: str, tx: int, rx: int, role: str = "data NIC", interface: str = "data0") -> InterfaceTraffic:
    return InterfaceTraffic(
        node=node, interface=interface, role=role, tx_bytes=tx, rx_bytes=rx, tx_packets=1, rx_packets=1
    )


def both_ways(bytes_: int, role: str = "data NIC") -> list[InterfaceTraffic]:
    """Return what two nodes' interfaces count when the first sends so many bytes to the second."""
    return [carried("n0", bytes_, 0, role), carried("n1", 0, bytes_, role)]


payloads = st.builds(
    lambda low, more, messages: Payload(low_bytes=low, high_bytes=low + more, messages=messages, known=True),
    st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 10**6),
)  # fmt: skip


def test_messages_that_nobody_counted_and_shared_nics_leave_only_a_lower_bound() -> None:
    carried_by_both = both_ways(200 << 20)
    counted = Payload(low_bytes=1 << 20, high_bytes=1 << 20, messages=10, known=True)
    assert "where the job's messages need" in str(check_traffic(carried_by_both, counted, said_bytes=0))
    assert check_traffic(carried_by_both, replace(counted, more=True), said_bytes=0) is None
    lost = replace(counted, low_bytes=1 << 30, more=True)
    assert f"need {2 << 30}: the traffic did not take" in str(check_traffic(carried_by_both, lost, said_bytes=0))
    assert check_traffic(both_ways(200 << 20), counted, said_bytes=0, shared=True) is None
    assert "the traffic did not take" in str(check_traffic(both_ways(1 << 10), counted, said_bytes=0, shared=True))


@given(payloads, st.floats(0, 1))
def test_traffic_within_the_bounds_is_proven(payload: Payload, at: float) -> None:
    upper = proof.UPPER * payload.high_bytes + proof.HEADER_BYTES * payload.messages
    sent = payload.low_bytes + int(at * (upper - payload.low_bytes))
    assert check_traffic(both_ways(sent), payload, said_bytes=0) is None


@given(payloads)
def test_traffic_below_the_payload_or_far_above_it_is_not(payload: Payload) -> None:
    upper = proof.UPPER * payload.high_bytes + proof.HEADER_BYTES * payload.messages + proof.CHATTER_BYTES
    reason = check_traffic(both_ways(int(upper) + 1), payload, said_bytes=0)
    assert "data NIC" in reason
    if payload.low_bytes > 0:
        assert check_traffic(both_ways(payload.low_bytes - 1), payload, said_bytes=0) is not None


@pytest.mark.parametrize(("factor", "proven"), [(0.99, False), (1.0, True), (1.5, True), (1.51, False)])
def test_the_bounds_are_the_payload_and_one_and_a_half_of_it(factor: float, proven: bool) -> None:
    payload = Payload(low_bytes=10**9, high_bytes=10**9, messages=0, known=True)
    assert (check_traffic(both_ways(int(factor * 10**9)), payload, said_bytes=0) is None) == proven


def test_what_tcp_sent_again_is_not_foreign_and_an_unknown_payload_finds_only_the_detour() -> None:
    payload = Payload(low_bytes=10**9, high_bytes=10**9, messages=0, known=True)
    lossy = both_ways(int(1.7 * 10**9))
    assert check_traffic(lossy, payload, said_bytes=0) is not None
    assert check_traffic(lossy, payload, said_bytes=0, resent_bytes=0.2 * 10**9) is None
    assert check_traffic(lossy, payload, said_bytes=0, resent_bytes=0.1 * 10**9) is not None
    assert check_traffic(both_ways(10**9 - 1), payload, said_bytes=0, resent_bytes=10**9) is not None
    unknown = Payload()
    assert check_traffic(both_ways(10**9), unknown, said_bytes=0) is None
    assert check_traffic(both_ways(0), unknown, said_bytes=0) is None
    detour = [*both_ways(0), carried("n0", 10**9, 0, SILENT_ROLE, "lo")]
    assert "lo of n0" in str(check_traffic(detour, unknown, said_bytes=0))


@given(st.integers(10**6, 10**12))
def test_every_role_has_to_carry_the_payload_and_one_of_one_side_carries_each_byte_once(sent: int) -> None:
    payload = Payload(low_bytes=sent, high_bytes=sent, messages=1, known=True)
    both = [*both_ways(sent), *both_ways(sent, "overlay")]
    assert check_traffic(both, payload, said_bytes=0) is None
    missing = [*both_ways(sent), *both_ways(0, "overlay")]
    assert "the overlay carried 0 bytes" in str(check_traffic(missing, payload, said_bytes=0))
    one_side = [*both_ways(sent), carried("n1", 0, sent, "veth of the pod", "eth0")]
    assert check_traffic(one_side, payload, said_bytes=0) is None
    elsewhere = [*both_ways(sent), carried("n1", 0, sent // 2, "veth of the pod", "eth0")]
    assert check_traffic(elsewhere, payload, said_bytes=0) is not None


@given(st.integers(0, 10**12), st.integers(0, 10**7), st.integers(0, 1000))
def test_what_should_be_silent_may_chatter_but_not_carry_the_job(sent: int, said: int, ranks: int) -> None:
    payload = Payload(low_bytes=sent, high_bytes=sent, messages=1, known=True)
    allowed = int(0.01 * sent + proof.CHATTER_BYTES + proof.RANK_CHATTER_BYTES * ranks + 2 * said)

    def with_silent(bytes_: int) -> str | None:
        silent = carried("n1", bytes_, 0, SILENT_ROLE, "ctl0")
        return check_traffic([*both_ways(sent), silent], payload, said_bytes=said, ranks=ranks)

    assert with_silent(allowed - 1) is None
    reason = with_silent(allowed + 2)
    assert reason.startswith("ctl0 of n1 carried")


# --- counters that may not be read --------------------------------------------------------------------------------

MEBIBYTE = Payload(low_bytes=1 << 20, high_bytes=1 << 20, messages=10, known=True)


def closed(
    node: str, interface: str = "data0", role: str = "data NIC", why: str = "permission denied"
) -> UnreadInterface:
    return UnreadInterface(node=node, interface=interface, role=role, why=why)


@pytest.mark.parametrize("payload", [MEBIBYTE, Payload()], ids=["known", "unknown"])
def test_counters_that_may_not_be_read_prove_and_refute_nothing_and_none_that_could_be_read_prove_nothing(
    payload: Payload,
) -> None:
    both = [closed("n0"), closed("n1")]
    assert check_traffic([], payload, said_bytes=0, unread=both) is None
    assert check_traffic([], payload, said_bytes=0) is not None
    assert check_traffic([carried("n0", 0, 0, SILENT_ROLE, "lo")], payload, said_bytes=0) is not None
    assert proof.state_unproven(both) == (
        "treatment not proven: the counters of data0 of n0, data0 of n1 cannot be read (permission denied)"
    )


def test_a_closed_counter_hides_no_other_and_is_stated() -> None:
    for bytes_, told in ((1 << 20, "None"), (200 << 20, "the traffic did not take")):
        one = check_traffic([carried("n0", bytes_, 0)], MEBIBYTE, said_bytes=0, unread=[closed("n1")])
        assert told in str(one)
    detour = [carried("n0", 1 << 30, 0, SILENT_ROLE, "lo")]
    both = [closed("n0"), closed("n1")]
    assert "lo of n0" in str(check_traffic(detour, MEBIBYTE, said_bytes=0, unread=both))
    idle = both_ways(10, "overlay")
    assert "the overlay carried 20 bytes" in str(check_traffic(idle, MEBIBYTE, said_bytes=0, unread=both))
    lo = closed("n0", "lo", SILENT_ROLE)
    assert check_traffic(both_ways(1 << 20), MEBIBYTE, said_bytes=0, unread=[lo]) is None
    assert check_traffic(both_ways(1 << 10), MEBIBYTE, said_bytes=0, unread=[lo]) is not None
    assert "lo of n0 cannot be read" in proof.state_unproven([lo])
    text = proof.state_unproven([closed(f"n{number}") for number in range(1000)])
    assert "data0 of n0, data0 of n1, data0 of n2 and 997 more cannot be read" in text


def test_only_a_shared_interface_whose_upper_bound_would_count_is_proven_in_part() -> None:
    both = both_ways(1 << 20)
    assert proof.state_partly_proven(both, MEBIBYTE, shared=True) == LOWER_BOUND_ONLY
    assert proof.state_partly_proven(both, MEBIBYTE, shared=False) == ""
    assert proof.state_partly_proven(both, replace(MEBIBYTE, more=True), shared=True) == ""
    assert proof.state_partly_proven([], MEBIBYTE, shared=True, unread=[closed("n0")]) == ""


# --- transport ----------------------------------------------------------------------------------------------------


@given(placements, st.data())
def test_shared_memory_with_a_rank_of_another_host_is_found(placement: Placement, data: st.DataObject) -> None:
    assume(placement.nodes > 1)
    ranks = rank_places(placement)
    taken = data.draw(st.sampled_from(ranks))
    other = data.draw(st.sampled_from([r.rank for r in ranks if r.host != taken.host]))
    kept = data.draw(st.booleans())
    shared = (*(taken.shared_memory_ranks if kept else ()), other)
    ranks[taken.rank] = replace(taken, shared_memory_ranks=shared)
    reason = check_transport(ranks)
    assert f"rank {taken.rank} shares memory" in reason


SENT = 1 << 20
PARSED = Parsed(
    metrics=(latency(1e-6),),
    ranks=tuple(rank_places(Placement())),
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
    placement=Placement(),
)


@pytest.fixture(autouse=True)
def parsed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = SimpleNamespace(parse=lambda *_: PARSED)
    monkeypatch.setattr(outcome, "plugin_of", lambda _: plugin)


def judged(
    traffic: Sequence[InterfaceTraffic], unread: Sequence[UnreadInterface] = (), *, shared: bool = False
) -> tuple[Outcome, tuple[str, str]]:
    pods = tuple(SimpleNamespace(node=node) for node in nodes_of(Placement()))
    ready = ReadyCell(
        cell=CELL,
        deployed=cast("Any", SimpleNamespace(pods=pods, shares_nics=shared)),
        command=cast("Any", None),
        pods_s=0.0,
    )
    result = SimpleNamespace(
        stdout="", stderr="", stderr_tail="", status=0, timed_out=False, flooded=False, began_s=1.0, elapsed_s=1.0
    )
    observed = Observed(traffic=tuple(traffic), unread=tuple(unread))
    made, parsed = judge(ready, cast("Any", result), observed)
    return made, proof_gaps(ready, made, parsed, observed)


def test_counters_that_may_not_be_read_complete_with_the_statement_and_missing_ones_are_invalid() -> None:
    made, (unproven, partly_proven) = judged((), [closed("n0"), closed("n1")])
    assert isinstance(made, Completed)
    assert unproven.startswith("treatment not proven: the counters of data0 of n0, data0 of n1 cannot be read")
    assert partly_proven == ""
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
    made, gaps = judged(both_ways(volume), shared=shared)
    assert isinstance(made, Completed if completes else Invalid)
    assert gaps == ("", LOWER_BOUND_ONLY if shared and completes else "")
