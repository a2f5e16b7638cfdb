"""What bpftrace prints is counted by rank and reason, kept in a file, and shown beside the baseline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.cli import session
from tare.errors import MissingTool, RefusedError, ResultsError
from tare.model import Completed, Failed, Plan, RankPlace, Trial, TrialKey
from tare.run.progress import Progress
from tare.run.trace import bpftrace, check_can_trace, lines_of, read_traces, script, tracing
from tare.run.trace.bpftrace import Tracer
from tare.run.trace.record import FILE, NO_RANK, KernelNames, Trace, added, write_traces
from tare.study.plan.cells import available
from unit.runs import known_study

PRINTED = """\
{"type": "attached_probes", "data": {"probes": 7}}
{"type": "printf", "data": "ready 0\\n"}
{"type": "printf", "data": "began 4711\\n"}

{"type": "map", "data": {"@calls": {"4711,0": 3, "4712,0": 5, "4711,232": 40}}}
{"type": "map", "data": {"@dropped": {"2": 7, "77": 1}}}
{"type": "map", "data": {"@softirq": {"3": 1500000000, "99": 1}}}
"""
FORMAT = """name: kfree_skb
print fmt: "reason: %s", __print_symbolic(REC->reason, { 2, "NOT_SPECIFIED" }, { 0x3, "NO_SOCKET" })
"""
NAMES = KernelNames(reasons={2: "NOT_SPECIFIED"}, calls={0: "read", 232: "epoll_wait"})


def test_what_bpftrace_prints_is_counted_by_rank_and_reason() -> None:
    counted = script.counted(PRINTED.splitlines())
    trace = added(Trace(group="g", environment="e"), counted, {4711: 0}, NAMES)
    assert trace.dropped == {"NOT_SPECIFIED": 7, "reason 77": 1}
    assert trace.softirq_s == {"NET_RX": 1.5, "softirq 99": 1e-9}
    assert trace.calls == {"0": {"read": 3, "epoll_wait": 40}, NO_RANK: {"read": 5}}
    twice = added(trace, counted, {4711: 0, 4712: 1}, NAMES)
    assert twice.launches == 2
    assert twice.calls == {"0": {"read": 6, "epoll_wait": 80}, "1": {"read": 5}, NO_RANK: {"read": 5}}
    assert twice.dropped["NOT_SPECIFIED"] == 14


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_lines_of_any_other_kind_are_ignored(line: str) -> None:
    assert script.events(line) is None
    assert script.counted([line, '{"type": "map", "data": 3}', '{"type": "map", "data": {"@calls": 7}}']).calls == {}


def test_names_are_those_of_the_kernel_and_bpftrace_ends_with_its_owner() -> None:
    assert script.reasons_in(FORMAT) == {2: "NOT_SPECIFIED", 3: "NO_SOCKET"}
    assert script.reasons_in("") == {}
    assert script.calls_in("#define __NR_read 0\n#define __NR_epoll_wait 232\n#define OTHER 3\n") == {
        0: "read",
        232: "epoll_wait",
    }
    command: Sequence[str] = bpftrace.argv("tare-latency")
    assert command[:3] == ("setpriv", "--pdeathsig", "KILL")
    assert "--mount" in command
    assert command[-1] == script.program("tare-latency")


@pytest.mark.parametrize("name", ["tare-latency", 'x" { } /* $(rm)', "a" * 40, "größe"])
def test_a_program_s_name_cannot_end_its_place_in_bpftrace_s_program(name: str) -> None:
    written = script.program(name)
    assert written.count('"') == script.program("x").count('"')
    assert written.count("{") == script.program("x").count("{")
    assert f'"{"a" * 15}"' in script.program("a" * 40)


def test_traces_are_kept_by_cell_and_shown_beside_the_baseline(tmp_path: Path) -> None:
    here = Trace(
        group="g", environment="slow", launches=2, dropped={"QDISC_DROP": 14}, softirq_s={"NET_RX": 3.0},
        calls={"0": {"read": 2000}},
    )  # fmt: skip
    base = replace(here, environment="plain", dropped={}, softirq_s={"NET_RX": 0.002}, calls={"0": {"read": 20}})
    write_traces(tmp_path / "trace", [here])
    write_traces(tmp_path / "trace", [base])
    kept = read_traces(tmp_path / "trace")
    assert kept == (here, base)
    assert list(lines_of(kept, "g", "slow", "plain")) == [
        "traced by bpftrace, per launch, and in the baseline (2 and 2 launches):",
        "  packets dropped on this machine: QDISC_DROP 7, 0",
        "  softirqs of this machine: NET_RX 1.5 s, 1.0 ms",
        "  system calls of rank 0: 1,000, 10 (read 1,000, 10)",
    ]
    assert list(lines_of(kept, "other", "slow", "plain")) == []
    assert list(lines_of(kept[:1], "g", "slow", "plain")) == []


@pytest.mark.parametrize("damage", ["{", '{"traces": 3}', '{"traces": [{"launches": "x"}]}', "[" * 100_000])
def test_a_damaged_file_of_traces_is_named_and_written_again(tmp_path: Path, damage: str) -> None:
    (tmp_path / FILE).write_text(damage)
    with pytest.raises(ResultsError, match=r"traces\.json is damaged"):
        read_traces(tmp_path)
    write_traces(tmp_path, [Trace(group="g", environment="e", launches=1)])
    assert [each.environment for each in read_traces(tmp_path)] == ["e"]
    assert read_traces(tmp_path / "none") == ()


def test_each_completed_launch_is_traced_with_its_ranks(tmp_path: Path) -> None:
    plan = session.make_plan(known_study(rounds=3, kernels=1))
    cells = available(plan)
    begun: list[str] = []

    @contextmanager
    def fake(name: str, log: Path) -> Iterator[Tracer]:
        begun.append(name)
        log.write_text(PRINTED)
        yield Tracer(log=log, processes={(17, 5): 4711})

    with (
        patch.object(bpftrace, "traced", fake),
        patch.object(bpftrace, "reasons", lambda: NAMES.reasons),
        patch.object(bpftrace, "system_calls", lambda: NAMES.calls),
        Progress(plan) as progress,
        tracing(progress, plan, tmp_path / "trace") as following,
    ):
        for number, outcome in enumerate([Completed(metrics=()), Failed(reason="it crashed"), Completed(metrics=())]):
            trial = _trial(plan, number, outcome)
            following.launch_started(trial.key, number, 3)
            following.launching((trial.key,))
            following.trial_ended(trial, number + 1, 3)
        following.launching((_trial(plan, 0, Completed(metrics=())).key,))  # interrupted
    assert len(begun) == 4
    (trace,) = read_traces(tmp_path / "trace")
    assert (trace.group, trace.launches) == (cells[0].group, 2)
    assert trace.calls == {"3": {"epoll_wait": 80, "read": 6}, NO_RANK: {"read": 10}}


def _trial(plan: Plan, number: int, outcome: Any) -> Trial:
    key = TrialKey(cell=available(plan)[0].key, round=number, block=0, attempt=0)
    rank = RankPlace(rank=3, host="h", hostname="h", pid=5, cpus=(0,), namespaces={"pid": 17})
    return Trial(key=key, position=0, started_unix_s=0, elapsed_s=1.0, outcome=outcome, ranks=(rank,))


def test_processes_are_known_by_their_number_in_their_own_namespace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f'{{"type": "printf", "data": "began {pid}\\n"}}\n' for pid in (os.getpid(), 2**31)))
    tracer = Tracer(log=log)

    class Once:
        def __init__(self) -> None:
            self.waited = 0

        def wait(self, _limit_s: float) -> bool:
            self.waited += 1
            return self.waited > 2

    tracer.follow(Once())  # type: ignore[arg-type]
    inside = os.stat("/proc/self/ns/pid").st_ino
    assert list(tracer.processes.values()) == [os.getpid()]
    assert next(iter(tracer.processes))[0] == inside
    assert not tracer.is_ready.is_set()


def test_what_cannot_be_traced_is_refused_with_what_to_do() -> None:
    with pytest.raises(RefusedError, match="cluster slurm"):
        check_can_trace("slurm")
    with patch("tare.run.trace.watcher.is_real_root", lambda: False), pytest.raises(RefusedError, match="needs root"):
        check_can_trace("lab")
    with (
        patch("tare.run.trace.watcher.is_real_root", lambda: True),
        patch("tare.run.trace.watcher.process.find", lambda _program: None),
        pytest.raises(MissingTool, match="bpftrace is not installed"),
    ):
        check_can_trace("local")
