"""Studies that are watched while they run, and what the traffic of a launch must be to prove its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from integration.live import Ended, Watch, ended, start, write_study

BYTES = 65536
ITERATIONS = 60
PAYLOAD = BYTES * ITERATIONS
LATENCY = f"{{latency: {{message_bytes: {BYTES}, iterations: {ITERATIONS}, warmup: 5}}}}"
KERNELS = f"{{micro: {{time_limit: 30s, kernels: [{LATENCY}, {{barrier: {{iterations: 20, warmup: 5}}}}]}}}}"
SILENT = "must stay silent"


def watched(study: Path, timeout_s: float = 90, env: Mapping[str, str] | None = None) -> tuple[Ended, Watch]:
    """Run a study to its end, looking at its lab all the while; return how it ended and what was seen."""
    watch = Watch()
    process = start("run", study, cwd=study.parent, env=env)
    with watch.looking(f"s{process.pid}"):
        return ended(process, timeout_s), watch


def ran(folder: Path, environments: Sequence[str] | str, **keys: str) -> tuple[Ended, Watch, Path]:
    """Run a study of `KERNELS`; return how it ended, what was seen, its results."""
    result, watch = watched(write_study(folder, "all", environments, **{"workloads": KERNELS, **keys}), 110)
    return result, watch, folder / "results" / "all"


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
