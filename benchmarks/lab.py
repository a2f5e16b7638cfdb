"""How fast a lab is up, and gone: `python benchmarks/lab.py [--nodes 8] [--runs 20]` (root, quiet machine).

Times are of the library calls, Python's own start and imports apart. "Gone" ends when no process is left in any of the
lab's namespaces and its cgroups are removed. Exits 1 when a median misses its bound (0.25 s up, 0.4 s gone).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyroute2  # noqa: F401  (its import is part of Python's start)
import scipy.stats

from tare.clusters import lab
from tare.model import LabSpec

UP_S = 0.25
GONE_S = 0.4


def namespaces_of(pids: list[int]) -> set[str]:
    """Return the namespaces that processes are in."""
    return {str((Path("/proc") / str(pid) / "ns" / kind).readlink()) for pid in pids for kind in lab.NODE_NAMESPACES}


def still_there(wanted: set[str]) -> bool:
    """Tell whether any process is in one of the namespaces."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        for kind in lab.NODE_NAMESPACES:
            try:
                if str((entry / "ns" / kind).readlink()) in wanted:
                    return True
            except OSError:
                break
    return False


def once(nodes: int, number: int) -> tuple[float, float]:
    """Return the seconds that one lab took to be up and to be gone."""
    before = namespaces_of([os.getpid()])
    started = time.perf_counter()
    made = lab.up(f"bench{number}", LabSpec(nodes=nodes))
    up_s = time.perf_counter() - started
    own = namespaces_of([made.head_pid, made.switch_pid, *(node.pid for node in made.nodes)]) - before
    assert len(own) >= nodes * len(lab.NODE_NAMESPACES)
    started = time.perf_counter()
    lab.down(made)
    while still_there(own):
        time.sleep(0.001)
    return up_s, time.perf_counter() - started


def told(name: str, values: list[float], bound: float) -> bool:
    """Print a line and return whether the median keeps the bound."""
    low, high = scipy.stats.bootstrap((values,), np.median, method="percentile", rng=1).confidence_interval
    median = float(np.median(values))
    print(
        f"{name:5} median {median:.3f} s [{low:.3f}, {high:.3f}], worst {max(values):.3f} s, n = {len(values)}; "
        f"bound {bound} s: {'kept' if median <= bound else 'MISSED'}"
    )
    return median <= bound


def main() -> int:
    """Measure and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    once(options.nodes, 0)
    measured = [once(options.nodes, i + 1) for i in range(options.runs)]
    print(f"lab of {options.nodes} nodes, {len(lab.NODE_NAMESPACES)} namespaces each")
    kept = told("up", [m[0] for m in measured], UP_S)
    return 0 if told("gone", [m[1] for m in measured], GONE_S) and kept else 1


if __name__ == "__main__":
    sys.exit(main())
