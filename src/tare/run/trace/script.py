"""Write bpftrace's program, and read what it prints. Pure.

Events: https://docs.kernel.org/trace/events.html; language: bpftrace(8). `skb:kfree_skb` is for packets that are
dropped: those that arrive are consumed, which is another event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

COMM_BYTES: Final = 15
"""The kernel keeps so much of a program's name."""
SOFTIRQS: Final = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
"""The names of softirqs by number (linux/interrupt.h)."""
MOST_LINES: Final = 100_000
LONGEST_S: Final = 600
"""After so many seconds the program ends by itself, should nobody be left to end it."""
PROGRAM: Final = """
BEGIN {{ printf("ready 0\\n"); }}
tracepoint:skb:kfree_skb {{ @dropped[args->reason] = count(); }}
tracepoint:irq:softirq_entry {{ @began[cpu] = nsecs; }}
tracepoint:irq:softirq_exit /@began[cpu]/ {{ @softirq[args->vec] = sum(nsecs - @began[cpu]); delete(@began[cpu]); }}
tracepoint:sched:sched_process_exec /comm == "{comm}"/ {{ printf("began %d\\n", pid); }}
tracepoint:raw_syscalls:sys_enter /comm == "{comm}"/ {{ @calls[pid, args->id] = count(); }}
interval:s:{longest_s} {{ exit(); }}
END {{ clear(@began); }}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCounts:
    """What bpftrace counted: packets by the number of the reason, ns by softirq, system calls by process and number."""

    dropped: Mapping[int, int] = field(default_factory=dict)
    softirq_ns: Mapping[int, int] = field(default_factory=dict)
    calls: Mapping[tuple[int, int], int] = field(default_factory=dict)


def program(name: str) -> str:
    """Return the program that traces the machine and the processes of one program; `name` is its file's."""
    comm = re.sub(r"[^A-Za-z0-9._+-]", "?", name.encode()[:COMM_BYTES].decode("utf-8", "ignore"))
    return PROGRAM.format(comm=comm, longest_s=LONGEST_S)


def events(line: str) -> tuple[str, int] | None:
    """Return what a line says that bpftrace prints while it runs, `ready` or `began` with a process, else None."""
    given = _object(line)
    text = given.get("data")
    if given.get("type") == "printf" and isinstance(text, str):
        word, _, number = text.strip().partition(" ")
        if word in {"ready", "began"} and number.isdigit():
            return word, int(number)
    return None


def counted(lines: Iterable[str]) -> TraceCounts:
    """Return what bpftrace counted, from the lines that it printed; what is none of its maps is ignored."""
    maps: dict[str, dict[tuple[int, ...], int]] = {}
    for line, _ in zip(lines, range(MOST_LINES), strict=False):
        given = _object(line)
        if given.get("type") == "map" and isinstance(given.get("data"), dict):
            for name, values in given["data"].items():
                maps.setdefault(name, {}).update(_numbers(values))
    dropped, softirq_ns = (
        {key[0]: value for key, value in maps.get(name, {}).items() if len(key) == 1}
        for name in ("@dropped", "@softirq")
    )
    calls = {(key[0], key[1]): value for key, value in maps.get("@calls", {}).items() if len(key) == 2}
    return TraceCounts(dropped=dropped, softirq_ns=softirq_ns, calls=calls)


def reasons_in(event: str) -> dict[int, str]:
    """Return the names of the reasons for which packets are dropped, from the `format` of the event."""
    _, _, symbols = event.partition("__print_symbolic(REC->reason")
    known = re.findall(r'\{\s*(\d+|0x[0-9a-f]+)\s*,\s*"([A-Z0-9_]+)"\s*\}', symbols)
    return {int(number, 0): name for number, name in known}


def calls_in(header: str) -> dict[int, str]:
    """Return the names of system calls by number, from the text of `asm/unistd_64.h`."""
    return {int(number): name for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)\b", header)}


def _object(line: str) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _numbers(values: Any) -> dict[tuple[int, ...], int]:
    """Return the entries of a map whose keys and values are numbers."""
    found = {}
    for key, value in values.items() if isinstance(values, dict) else ():
        parts = key.split(",")
        if isinstance(value, int) and all(part.strip().isdigit() for part in parts):
            found[tuple(int(part) for part in parts)] = value
    return found
