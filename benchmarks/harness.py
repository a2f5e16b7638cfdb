"""What the harness adds to a trial: `python benchmarks/harness.py [--runs 20]` (root, quiet machine).

A trivial job (one kernel, 100 iterations, two lab nodes, pods up) is started bare (`mpirun` and nothing else) and as a
trial (counters, launch, parse, proof, store), alternating; the difference is the harness. Beside it the same for
ReFrame: `mpirun -n 2 hostname` alone against a ReFrame test that runs it with its local scheduler (its own venv in the
cache folder). Exits 1 when the harness's median is above its bound (60 ms).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np
import scipy.stats

from tare import monitor, runner, session, study, study_files
from tare.model import TrialKey
from tare.paths import cache_folder
from tare.store import Store

BOUND_S = 0.060
STUDY = """
name: harness
cluster: {lab: {nodes: 2}}
environments: [bare]
placements: [{nodes: 2, ranks_per_node: 1}]
workloads: {trivial: {kernels: [{latency: {message_bytes: 8, iterations: 100, warmup: 10}}]}}
"""
REFRAME = "ReFrame-HPC==4.10.4"
REFRAME_TEST = """
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Trivial(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = {executable!r}
    executable_opts = {options!r}

    @sanity_function
    def it_ran(self):
        return sn.assert_true(1)
"""


class Silent:
    """Show nothing."""

    def round_started(self, number: int, attempt: int) -> None:
        pass

    def trial_ended(self, trial: object, done: int, total: int) -> None:
        pass


def interval(values: list[float]) -> str:
    """Return median and 95 % bootstrap interval in milliseconds."""
    low, high = scipy.stats.bootstrap((values,), np.median, method="percentile", rng=1).confidence_interval
    return f"{1e3 * float(np.median(values)):.1f} ms [{1e3 * low:.1f}, {1e3 * high:.1f}], n = {len(values)}"


def tare_overhead(runs: int) -> tuple[list[float], list[float]]:
    """Return what each trial took beyond a bare start of the same argv, and the bare times, in seconds."""
    plan = session.make_plan(study.parse(STUDY))
    files = study_files.make_files(plan, print)
    extra, bare = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create_or_open(Path(folder) / "results", plan, {}) as store,
        runner.running(plan, store, files, Silent(), name="bench") as run,
        runner.ExitStack() as stack,
    ):
        ready = run.pods(stack)
        key, one = next(iter(ready.items()))
        environment = {**os.environ, **one.environment, runner.PADDING: ""}
        for number in range(runs + 1):
            started = time.perf_counter()
            done = subprocess.run(one.argv, env=environment, capture_output=True, check=True)
            bare_s = time.perf_counter() - started
            assert b"@tare" in done.stdout
            started = time.perf_counter()
            run.trial(TrialKey(cell=key, round=number, block=0, attempt=0), 0, one)
            trial_s = time.perf_counter() - started
            if number:
                extra.append(trial_s - bare_s)
                bare.append(bare_s)
        assert all(type(trial.outcome).__name__ == "Completed" for trial in store.trials), store.trials[-1].outcome
        started = time.perf_counter()
        for _ in range(100):
            monitor.read(one.places)
        print(f"  of this, one reading of all counters: {10 * (time.perf_counter() - started):.2f} ms")
    return extra, bare


def reframe_overhead(runs: int) -> tuple[list[float], list[float]]:
    """Return what a ReFrame test takes per run beyond its command, and the command alone, in seconds."""
    place = cache_folder() / "benchmarks" / "reframe"
    program = place / "bin" / "reframe"
    if not program.exists():
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "pip", "install", "-q", REFRAME], check=True)
    command = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "pml", "ob1", "--mca", "btl", "self,vader",
               "-n", "2", "hostname"]  # fmt: skip
    alone = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        alone.append(time.perf_counter() - started)
    with tempfile.TemporaryDirectory() as folder:
        test = Path(folder) / "trivial.py"
        test.write_text(REFRAME_TEST.format(executable=command[0], options=command[1:]))
        times = {}
        for repeats in (1, runs + 1):
            argv = [program, "-c", test, "--prefix", folder, "--exec-policy=serial", f"--repeat={repeats}", "-r"]
            started = time.perf_counter()
            subprocess.run(argv, capture_output=True, check=True, cwd=folder)
            times[repeats] = time.perf_counter() - started
    each = (times[runs + 1] - times[1]) / runs
    return [each - value for value in alone], alone


def main() -> int:
    """Measure and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--no-reframe", action="store_true")
    options = parser.parse_args()
    print("tare, two lab nodes, pods up")
    extra, bare = tare_overhead(options.runs)
    print(f"  mpirun alone {interval(bare)}\n  the harness adds {interval(extra)}")
    if not options.no_reframe:
        print(f"{REFRAME}, mpirun on this machine, serial policy, per test of a long run")
        theirs, alone = reframe_overhead(options.runs)
        print(f"  mpirun alone {interval(alone)}\n  the harness adds {interval(theirs)}")
    kept = float(np.median(extra)) <= BOUND_S
    print(f"bound {1e3 * BOUND_S:.0f} ms: {'kept' if kept else 'MISSED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
