"""Counters by place are stored once per set of names, and come back as they were."""

from __future__ import annotations

from dataclasses import replace

from tare.store.shared import Shared
from tare.store.trial_lines import LineWriter, TrialLines
from unit.summaries import make_plan, make_trials

PLAN = make_plan("docker")
GROWN = {
    "n0": {"TcpRetransSegs": 3, "TcpOutSegs": 123456789, "run_delay_s": 0.0123457, "throttled_s": 1e-06},
    "n1": {"TcpOutSegs": 7},
    "machine localhost": {"softnet_processed": 9.0},
}


def test_counters_by_place_come_back_and_their_names_are_stored_once() -> None:
    (given, *_) = make_trials(PLAN, 1)
    twice = {place: {name: 2 * value for name, value in values.items()} for place, values in GROWN.items()}
    written = [replace(given, node_counters=GROWN), replace(given, node_counters=twice), given]
    shared = Shared()
    lines, parts = LineWriter(shared).encode(written)
    for digest, text in parts.items():
        shared.add(digest, text)
    read = [TrialLines(shared).decode(line).node_counters for line in lines.splitlines()]
    assert read == [GROWN, twice, {}]
    assert b"TcpRetransSegs" not in b"".join(line.partition(b'"node_counters"')[2] for line in lines.splitlines()[:2])
    assert sum(b"TcpOutSegs" in text for text in parts.values()) == 1


def test_a_line_of_an_earlier_version_has_no_counters_by_place() -> None:
    (given, *_) = make_trials(PLAN, 1)
    shared = Shared()
    lines, parts = LineWriter(shared).encode([given])
    for digest, text in parts.items():
        shared.add(digest, text)
    line = lines.replace(b'"node_counters":{},', b"")
    assert line != lines
    assert TrialLines(shared).decode(line.strip()) == given
