"""What is stored comes back as it was, counters and traffic by place too; data of another form is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

import large_results
from tare.analysis.summary.mechanisms import BINDING_COLLAPSE, TRANSPORT_LOSS, findings
from tare.model import InterfaceTraffic, Plan, Trial, TrialKey
from tare.store.parts import LazySequence, make_part, part_of
from tare.store.shared import Shared
from tare.store.traffic import Carried, carried
from tare.store.trial_lines import LineWriter, TrialLines
from tare.store.writer import decode, encode
from unit.stored import PLAN, trial
from unit.summaries import make_plan, make_trials


def test_a_plan_and_numbers_that_json_has_no_word_for_survive() -> None:
    assert decode(Plan, json.loads(json.dumps(encode(PLAN)))) == PLAN
    stored = trial(TrialKey(cell="c", round=0, block=0, attempt=0))
    stored = replace(stored, counters={"a": float("inf"), "b": float("-inf"), "c": float("nan")})
    text = json.dumps(encode(stored), allow_nan=False)
    back = decode(Trial, json.loads(text)).counters
    assert back["a"] == float("inf")
    assert back["b"] == float("-inf")
    assert np.isnan(back["c"])
    assert encode({"a": np.int64(3), "b": np.float32(0.5), "c": np.float64(0.1)}) == {"a": 3, "b": 0.5, "c": 0.1}


def test_unknown_keys_and_lines_of_earlier_versions_are_read() -> None:
    data = encode(trial(TrialKey(cell="c", round=0, block=0, attempt=0)))
    del data["noise"]
    assert decode(Trial, data | {"new": 1}).noise == {}
    (given, *_) = make_trials(NODE_COUNTERS_PLAN, 1)
    lines, _, shared = written([given])
    line = lines.replace(b'"node_counters":{},', b"")
    assert line != lines
    assert TrialLines(shared).decode(line.strip()) == given


@pytest.mark.parametrize(
    "change",
    [
        {"key": 3},
        {"outcome": {"type": "Odd"}},
        {"elapsed_s": "soon"},
        {"position": True},
        {"type": "Plan"},
        {"argv": "a"},
    ],
)
def test_data_of_another_form_is_refused(change: dict[str, object]) -> None:
    data = encode(trial(TrialKey(cell="c", round=0, block=0, attempt=0)))
    with pytest.raises(ValueError, match=r"instead of|is not one of|is not a number"):
        decode(Trial, data | change)


NODE_COUNTERS_PLAN = make_plan("docker")
GROWN = {
    "n0": {"TcpRetransSegs": 3, "TcpOutSegs": 123456789, "run_delay_s": 0.0123457, "throttled_s": 1e-06},
    "n1": {"TcpOutSegs": 7},
    "machine localhost": {"softnet_processed": 9.0},
}


def test_counters_by_place_come_back_and_their_names_are_stored_once() -> None:
    (given, *_) = make_trials(NODE_COUNTERS_PLAN, 1)
    twice = {place: {name: 2 * value for name, value in values.items()} for place, values in GROWN.items()}
    trials = [replace(given, node_counters=GROWN), replace(given, node_counters=twice), given]
    lines, parts, _ = written(trials)
    assert [each.node_counters for each in stored(trials)] == [GROWN, twice, {}]
    assert b"TcpRetransSegs" not in b"".join(line.partition(b'"node_counters"')[2] for line in lines.splitlines()[:2])
    assert sum(b"TcpOutSegs" in text for text in parts.values()) == 1


SILENT = "must stay silent"
TRAFFIC_PLAN = large_results.plan_of(environments=3, groups=1, rounds=4)
TRIALS = [trial for trial, _ in large_results.trials_of(TRAFFIC_PLAN)]


def written(trials: Sequence[Trial]) -> tuple[bytes, Mapping[str, bytes], Shared]:
    """Return the lines of trials, the parts that they share by digest, and these parts as they are read."""
    shared = Shared()
    lines, parts = LineWriter(shared).encode(trials)
    for digest, text in parts.items():
        shared.add(digest, text)
    return lines, parts, shared


def stored(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials as they are read from a folder."""
    lines, _, shared = written(trials)
    decode = TrialLines(shared).decode
    return [decode(line) for line in lines.splitlines()]


def sums(traffic: Sequence[InterfaceTraffic]) -> list[Carried]:
    return [
        Carried(each.node, each.role, each.rx_packets + each.tx_packets, each.rx_bytes + each.tx_bytes)
        for each in traffic
        if each.role != SILENT
    ]


def test_stored_traffic_is_summed_as_that_of_the_launches_was() -> None:
    for given_, read in zip(TRIALS, stored(TRIALS), strict=True):
        assert part_of(read.traffic) is not None
        assert list(carried(read.traffic, but=SILENT)) == sums(given_.traffic) != []
        assert list(carried(given_.traffic, but=SILENT)) == sums(given_.traffic)


def test_counts_that_a_part_states_are_summed_in_any_order() -> None:
    interfaces = [
        {"node": "n0", "interface": "eth0", "role": "data NIC", "rx_bytes": 7, "tx_bytes": None, "rx_packets": None,
         "tx_packets": None},
        {"node": "n1", "interface": "eth0", "role": SILENT, "tx_packets": None, "tx_bytes": None, "rx_packets": None,
         "rx_bytes": None},
    ]  # fmt: skip
    part = make_part(Sequence[InterfaceTraffic], interfaces, 100, varies=False)
    traffic: Sequence[InterfaceTraffic] = LazySequence(part, "10 2 3 4 5 6 8")
    assert list(carried(traffic, but=SILENT)) == [Carried("n0", "data NIC", 5, 17)]
    interface = {"tx_packets": None, "node": "n0", "rx_packets": None, "role": "data NIC", "tx_bytes": None,
                 "rx_bytes": None, "interface": "eth0"}  # fmt: skip
    part = make_part(Sequence[InterfaceTraffic], [interface], 100, varies=False)
    traffic: Sequence[InterfaceTraffic] = LazySequence(part, "1 20 300 4000")
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
