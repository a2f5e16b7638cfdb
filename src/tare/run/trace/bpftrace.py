"""Run bpftrace while a block runs, in a mount namespace of its own, and note the program's processes as they begin."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tare.errors import InfrastructureError
from tare.run.trace import script
from tare.system import process

BPFTRACE: Final = "bpftrace"
TRACEFS: Final = "/sys/kernel/tracing"
START_S: Final = 60.0
"""How long bpftrace may take until all events are attached: 2 s here."""
END_S: Final = 20.0
"""How long it may take to print what it counted, once it is asked to end."""
POLL_S: Final = 0.005
MOST_BYTES: Final = 64 << 20
MOUNTED: Final = f'mount -t tracefs tare {TRACEFS} 2>/dev/null; ulimit -l unlimited; exec "$0" "$@"'
"""A shell's words that make the events visible, and then become what they are called with."""


@dataclass(slots=True, eq=False)
class Tracer:
    """One run of bpftrace: what it printed goes to `log`.

    `processes` are the program's processes that were seen to begin: their number here, by the number of their PID
    namespace and their number in it, as ranks report themselves.
    """

    log: Path
    processes: dict[tuple[int, int], int] = field(default_factory=dict)
    is_ready: threading.Event = field(default_factory=threading.Event)
    _read_bytes: int = 0

    def follow(self, end: threading.Event) -> None:
        """Note what bpftrace says until `end` is set: a process has to be looked at while it lives."""
        while not end.wait(POLL_S):
            for line in self._new_lines():
                said = script.events(line)
                if said is not None and said[0] == "ready":
                    self.is_ready.set()
                elif said is not None:
                    with suppress(OSError, ValueError):
                        self.processes[_inside(said[1])] = said[1]

    def counted(self) -> script.TraceCounts:
        """Return what bpftrace counted; it has ended."""
        with self.log.open(encoding="utf-8", errors="replace") as file:
            return script.counted(file)

    def _new_lines(self) -> list[str]:
        with self.log.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read(MOST_BYTES)
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return whole.decode("utf-8", "replace").splitlines()


@contextmanager
def traced(name: str, log: Path) -> Iterator[Tracer]:
    """Trace the machine and the processes of a program while the block runs; its counts are there after the block.

    bpftrace is ended with the thread that started it, also by kill -9. Raises `InfrastructureError` if it does not
    start.
    """
    log.write_bytes(b"")
    tracer, end = Tracer(log=log), threading.Event()
    follower = threading.Thread(target=tracer.follow, args=(end,), daemon=True)
    with process.beside(argv(name), log=log, grace_s=END_S) as started:
        follower.start()
        try:
            if not tracer.is_ready.wait(START_S) or started.poll() is not None:
                said = log.read_text(errors="replace").strip()[-500:]
                raise InfrastructureError(f"bpftrace does not trace here: {said or 'it did not start'}")
            yield tracer
        finally:
            end.set()
            follower.join()


def argv(name: str) -> tuple[str, ...]:
    """Return the command that traces a program's processes."""
    shell = ("unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNTED)
    return ("setpriv", "--pdeathsig", "KILL", *shell, BPFTRACE, "-f", "json", "-e", script.program(name))


def reasons() -> dict[int, str]:
    """Return the names of the reasons for which this kernel drops packets; {} if it does not say."""
    show = f"mount -t tracefs tare {TRACEFS} 2>/dev/null; cat {TRACEFS}/events/skb/kfree_skb/format"
    shell = ("unshare", "--mount", "--propagation", "private", "sh", "-c", show)
    return script.reasons_in(
        process.run(shell, timeout_s=20, check=False, what="reading the format of an event").stdout
    )


def system_calls() -> dict[int, str]:
    """Return the names of this machine's system calls by number; {} if the kernel's headers are not installed."""
    for file in sorted(Path("/usr/include").glob("*/asm/unistd_64.h")):
        if file.parts[3].startswith(os.uname().machine):
            return script.calls_in(file.read_text(errors="replace"))
    return {}


def _inside(pid: int) -> tuple[int, int]:
    """Return the number of a process's PID namespace, and its number in it."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(each for each in status.splitlines() if each.startswith("NSpid:"))
    return os.stat(f"/proc/{pid}/ns/pid").st_ino, int(line.split()[-1])
