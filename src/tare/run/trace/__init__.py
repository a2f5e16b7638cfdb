"""Trace launches in the kernel: which packets it dropped and why, time in softirqs, system calls of each rank.

In: a running study. Out: a `Trace` of each cell, for `tare explain --trace`. bpftrace runs beside each launch, which it
slows: what was traced is never compared. Needs root on the nodes, so only nodes inside this machine are traced.
"""

from __future__ import annotations

from tare.run.trace.record import Trace, read_traces
from tare.run.trace.trace_lines import lines_of
from tare.run.trace.watcher import check_can_trace, tracing

__all__ = ["Trace", "check_can_trace", "lines_of", "read_traces", "tracing"]
