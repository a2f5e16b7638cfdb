"""Studies that are watched while they run or stopped at a fault point, and what traffic proves the way of a launch."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from integration.live import Ended, Watch, ended, start, wait_for, write_study
from tare.system.fault import VARIABLE

BYTES = 65536
ITERATIONS = 60
PAYLOAD = BYTES * ITERATIONS
LATENCY = f"{{latency: {{message_bytes: {BYTES}, iterations: {ITERATIONS}, warmup: 5}}}}"
KERNELS = f"{{micro: {{time_limit: 300s, kernels: [{LATENCY}, {{barrier: {{iterations: 20, warmup: 5}}}}]}}}}"
SILENT = "must stay silent"


def watched(study: Path, timeout_s: float = 0.0, env: Mapping[str, str] | None = None) -> tuple[Ended, Watch]:
    """Run a study to its end, looking at its lab all the while; return how it ended and what was seen.

    `timeout_s` bounds nothing, as pytest bounds the test.
    """
    watch = Watch()
    process = start("run", study, cwd=study.parent, env=env)
    with watch.looking(f"s{process.pid}"):
        return ended(process), watch


def ran(folder: Path, environments: Sequence[str] | str, **keys: str) -> tuple[Ended, Watch, Path]:
    """Run a study of `KERNELS`; return how it ended, what was seen, its results."""
    result, watch = watched(write_study(folder, "all", environments, **{"workloads": KERNELS, **keys}))
    return result, watch, folder / "results" / "all"


@contextmanager
def stopped(point: str, *command: str | Path, cwd: Path, **options: Any) -> Iterator[Any]:
    """Start a command, by default `run`, that stops itself at a fault point, and provide its process once it has.

    It is continued at the end, so that it handles the signals which it was sent meanwhile.
    """
    process = start(*command, cwd=cwd, env={**options.pop("env", {}), VARIABLE: f"{point}:STOP"}, **options)
    try:
        wait_for(lambda: state(process.pid) == "T" or process.poll() is not None, f"stop at {point}")
        assert process.poll() is None, f"it ended before {point}: {process.communicate()}"
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)


def state(pid: int) -> str:
    """Return the state of a process, as in /proc/PID/stat; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def roles(trial: Mapping[str, Any]) -> set[str]:
    """Return the roles of the interfaces that are claimed to carry the traffic."""
    return {item["role"] for item in trial["traffic"]} - {SILENT}


def prove(trial: Mapping[str, Any], payload: int = PAYLOAD) -> None:
    """Hold every interface that is claimed to the payload, in both directions, and the others to silence."""
    for item in trial["traffic"]:
        moved = (item["tx_bytes"], item["rx_bytes"])
        if item["role"] == SILENT:
            assert max(moved) < payload / 10, item
        else:
            assert payload <= min(moved) <= max(moved) <= 1.5 * payload, item
