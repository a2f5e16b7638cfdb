"""Traffic of stored launches is summed without objects, and mechanisms are found in launches that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import large_results
from tare.model import InterfaceTraffic, Trial
from tare.store.parts import Later, make_part, part_of
from tare.store.shared import Shared
from tare.store.traffic import Carried, carried
from tare.store.trial_lines import LineWriter, TrialLines
from tare.summary.mechanisms import BINDING_COLLAPSE, TRANSPORT_LOSS, findings

SILENT = "must stay silent"
PLAN = large_results.plan_of(environments=3, groups=1, rounds=4)
TRIALS = [trial for trial, _ in large_results.trials_of(PLAN)]


def stored(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials as they are read from a folder."""
    shared = Shared()
    lines, parts = LineWriter(shared).encode(trials)
    for digest, text in parts.items():
        shared.add(digest, text)
    decode = TrialLines(shared).decode
    return [decode(line) for line in lines.splitlines()]


def sums(traffic: Sequence[InterfaceTraffic]) -> list[Carried]:
    return [
        Carried(each.node, each.role, each.rx_packets + each.tx_packets, each.rx_bytes + each.tx_bytes)
        for each in traffic
        if each.role != SILENT
    ]


def test_stored_traffic_is_summed_as_that_of_the_launches_was() -> None:
    for trial, read in zip(TRIALS, stored(TRIALS), strict=True):
        assert part_of(read.traffic) is not None
        assert list(carried(read.traffic, but=SILENT)) == sums(trial.traffic) != []
        assert list(carried(trial.traffic, but=SILENT)) == sums(trial.traffic)


def test_counts_that_a_part_states_are_summed_too() -> None:
    interfaces = [
        {"node": "n0", "interface": "eth0", "role": "data NIC", "rx_bytes": 7, "tx_bytes": None, "rx_packets": None,
         "tx_packets": None},
        {"node": "n1", "interface": "eth0", "role": SILENT, "tx_packets": None, "tx_bytes": None, "rx_packets": None,
         "rx_bytes": None},
    ]  # fmt: skip
    part = make_part(Sequence[InterfaceTraffic], interfaces, 100, varies=False)
    traffic: Sequence[InterfaceTraffic] = Later(part, "10 2 3 4 5 6 8")
    assert list(carried(traffic, but=SILENT)) == [Carried("n0", "data NIC", 5, 17)]


def test_counts_may_stand_in_any_order() -> None:
    interface = {"tx_packets": None, "node": "n0", "rx_packets": None, "role": "data NIC", "tx_bytes": None,
                 "rx_bytes": None, "interface": "eth0"}  # fmt: skip
    part = make_part(Sequence[InterfaceTraffic], [interface], 100, varies=False)
    traffic: Sequence[InterfaceTraffic] = Later(part, "1 20 300 4000")
    assert list(carried(traffic, but=SILENT)) == [Carried("n0", "data NIC", 21, 4300)]


def test_a_mechanism_is_found_in_as_many_stored_launches_as_have_it() -> None:
    host = "57cae7ef-6416-4936-a72c-47152410f630/n0"
    crowded = [
        replace(trial, ranks=tuple(replace(rank, host=host, cpus=(number % 2 * rank.rank,)) for rank in trial.ranks))
        for number, trial in enumerate(TRIALS)
    ]
    found = findings("fake", "g", stored(crowded))
    assert found == findings("fake", "g", crowded)
    assert {each.kind: (each.launches, each.of) for each in found} == {
        TRANSPORT_LOSS: (len(TRIALS), len(TRIALS)),
        BINDING_COLLAPSE: (len(TRIALS) // 2, len(TRIALS)),
    }
