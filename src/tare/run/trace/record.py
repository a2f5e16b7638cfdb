"""What was traced of a cell, and its file in the results."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tare.errors import ResultsError
from tare.run.trace.script import SOFTIRQS, TraceCounts
from tare.store.codec import decode, encode
from tare.system.safe_files import folder_at, open_file, write_whole

FILE: Final = "traces.json"
MOST_BYTES: Final = 16 << 20
NS_PER_S: Final = 1e9
NO_RANK: Final = "other"
"""Whose system calls those are of processes of the program that are no rank's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the kernel did in the traced launches of a cell; all figures are sums over these launches.

    `dropped` are packets by reason, `softirq_s` seconds by softirq, both of the whole machine. `calls` are system calls
    by name, for each rank (its number as text, or `NO_RANK`).
    """

    group: str
    environment: str
    launches: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    softirq_s: Mapping[str, float] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNames:
    """The names that this kernel gives to the numbers of reasons and system calls."""

    reasons: Mapping[int, str]
    calls: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """All traces of a results folder."""

    traces: tuple[Trace, ...] = ()


def added(trace: Trace, counted: TraceCounts, ranks: Mapping[int, int], names: KernelNames) -> Trace:
    """Return a trace with one more launch; `ranks` are the ranks by the number that their process has here."""
    dropped = defaultdict[str, int](int, trace.dropped)
    softirq_s = defaultdict[str, float](float, trace.softirq_s)
    calls = {rank: defaultdict[str, int](int, of_rank) for rank, of_rank in trace.calls.items()}
    for number, count in counted.dropped.items():
        dropped[names.reasons.get(number, f"reason {number}")] += count
    for number, spent_ns in counted.softirq_ns.items():
        softirq = SOFTIRQS[number] if number < len(SOFTIRQS) else f"softirq {number}"
        softirq_s[softirq] += spent_ns / NS_PER_S
    for (pid, number), count in counted.calls.items():
        of_rank = calls.setdefault(str(ranks.get(pid, NO_RANK)), defaultdict(int))
        of_rank[names.calls.get(number, f"system call {number}")] += count
    return replace(trace, launches=trace.launches + 1, dropped=dropped, softirq_s=softirq_s, calls=calls)


def read_traces(folder: Path) -> tuple[Trace, ...]:
    """Return the traces in a folder, none if there is no file of them; raise `ResultsError` if it is damaged."""
    try:
        with folder_at(folder) as opened, os.fdopen(open_file(opened, FILE, os.O_RDONLY, place=folder), "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return ()
    try:
        if len(data) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
        return decode(Traces, json.loads(data)).traces
    except (ValueError, RecursionError) as error:
        raise ResultsError(
            f"{folder / FILE} is damaged: {error}", remedy="remove it; `tare explain --trace` writes it again"
        ) from error


def write_traces(folder: Path, traces: Iterable[Trace]) -> None:
    """Write the traces of a folder, in place of those of the same cells."""
    new = {(trace.group, trace.environment): trace for trace in traces}
    try:
        kept = read_traces(folder)
    except ResultsError:
        kept = ()
    every = {(trace.group, trace.environment): trace for trace in kept} | new
    with folder_at(folder, make=True):
        write_whole(folder / FILE, [json.dumps(encode(Traces(traces=tuple(every.values()))), indent=1), "\n"])
