"""What the harness adds to a trial: `python benchmarks/harness.py [--runs 20] [--parts]` (root, quiet machine).

A trivial job (one kernel, 100 iterations, two lab nodes, pods up) is started bare (`mpirun` and nothing else) and as a
trial (counters, launch, parse, proof, store), alternating; the difference is the harness. Beside it the same for
ReFrame: `mpirun -n 2 hostname` alone against a ReFrame test that runs it with its local scheduler (its own venv in the
cache folder). Exits 1 when the harness's median is above its bound (60 ms).

With `--parts` it is the quick start (or another `--study`): the wall time of a trial in each of its environments
(`--environments A,B` takes some of them), and what of it is measured, start-up of the MPI, and the rest. Start-up of
the MPI is what a program takes there that does nothing but MPI_Init, a barrier and MPI_Finalize (tare-startup, without
the files that it reads), from the start of its launcher to the launcher's end, launched right after the trial. Beside
it stands MPI_Init alone, as the slowest rank of the trial tells. Exits 1 when the median of the rest, over all trials,
is above its bound (0.3 s).

With `--against FOLDER`, another checkout of tare, both run the trivial job, taking turns in random order. The figure is
the paired difference of the time that a trial takes beyond its launch. Exits 1 when the upper end of its 95 % interval
is not below its bound (2 ms).
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.stats

from tare import study
from tare.cli import session
from tare.clusters import Site
from tare.model import Caches, Cell, Completed, Role, Study, TrialKey, Workload
from tare.mpi.launch import PADDING
from tare.run import job, runner
from tare.run.outcome import ReadyCell
from tare.store.writer import Store
from tare.study.feasibility import study_files
from tare.system.paths import cache_folder
from tare.workloads.output import records

BOUND_S = 0.060
REST_BOUND_S = 0.300
AGAINST_BOUND_S = 0.002
QUICK_START = Path(__file__).parents[1] / "studies" / "quickstart.yaml"
EMPTY = Workload(name="empty", startup=Caches.WARM)
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

    def calibrated(self, cell: Cell, elapsed_s: float) -> None:
        pass

    def launch_started(self, key: TrialKey, done: int, total: int) -> None:
        pass

    def launching(self, keys: Sequence[TrialKey]) -> None:
        pass

    def trial_ended(self, trial: object, done: int, total: int) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one trial took, in seconds; `harness_s` is what of its wall time was not the launch."""

    wall_s: float
    measured_s: float
    mpi_s: float
    init_s: float
    harness_s: float

    @property
    def rest_s(self) -> float:
        """Return what was neither measured nor start-up of the MPI."""
        return self.wall_s - self.measured_s - self.mpi_s


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
        runner.running(plan, store, files, Silent(), name="bench", say=print) as run,
        ExitStack() as stack,
    ):
        ready = run.pods(stack)
        key, one = next(iter(ready.items()))
        environment = {**os.environ, **one.command.environment, PADDING: ""}
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
            one.deployed.counters()
        print(f"  of this, one reading of all counters: {10 * (time.perf_counter() - started):.2f} ms")
    return extra, bare


def empty_launch_s(site: Site, ready: ReadyCell, agent: Path) -> float:
    """Return how long a program takes where a trial has just run that does nothing but start and end its MPI."""
    cell = replace(ready.cell, workload=EMPTY)
    launch = job.make_launch(site, cell, ready.deployed)
    command = job.command_of(site, ready.deployed, launch, agent, name="empty")
    done = job.started(site, command, timeout_s=60)
    (told,) = [record for record in records(done.stdout) if record["type"] == "startup"]
    return done.elapsed_s - max(told["rank_modules_s"])


def some_of(file: Path, names: list[str]) -> Study:
    """Return a study with some of its environments."""
    stated = study.load(file)
    chosen = tuple(each for each in stated.environments if not names or each.name in names)
    return replace(stated, environments=chosen, baseline=chosen[0].name, self_comparison=False)


def parts_of(stated: Study, runs: int) -> dict[str, list[Parts]]:
    """Return what the trials of a study took, by environment; the first of each is left out."""
    plan = session.make_plan(stated)
    files = study_files.make_files(plan, print)
    found: dict[str, list[Parts]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create_or_open(Path(folder) / "results", plan, {}) as store,
        runner.running(plan, store, files, Silent(), name="bench", say=print) as run_,
        ExitStack() as stack,
    ):
        ready = run_.pods(stack)
        run_.site.settle()
        for each in ready.values():
            each.deployed.wait_until_ready()
        for number in range(runs + 1):
            for key, one in ready.items():
                if one.cell.role is Role.SELF:
                    continue
                started = time.perf_counter()
                trial = run_.trial(TrialKey(cell=key, round=number, block=0, attempt=0), 0, one)
                wall_s = time.perf_counter() - started
                assert isinstance(trial.outcome, Completed), (key, number, trial.outcome)
                measured_s = trial.elapsed_s - trial.startup_s["launch_s"]
                mpi_s = empty_launch_s(run_.site, one, run_.agent)
                if number:
                    found.setdefault(one.cell.environment.name, []).append(
                        Parts(
                            wall_s=wall_s,
                            measured_s=measured_s,
                            mpi_s=mpi_s,
                            init_s=trial.startup_s["mpi_init_s"],
                            harness_s=wall_s - trial.elapsed_s,
                        )
                    )
    return found


def tell_parts(found: dict[str, list[Parts]]) -> bool:
    """Print medians by environment and say whether the rest is within its bound."""
    columns = ("wall_s", "measured_s", "mpi_s", "init_s", "rest_s", "harness_s")
    titles = ("wall", "measured", "MPI", "(MPI_Init)", "rest", "(harness)")
    print(f"{'medians, seconds':18s}" + "".join(f"{title:>12s}" for title in titles) + f"{'n':>5s}")
    for name, trials in found.items():
        medians = [float(np.median([getattr(each, column) for each in trials])) for column in columns]
        print(f"{name:18s}" + "".join(f"{value:12.3f}" for value in medians) + f"{len(trials):5d}")
    rests = [each.rest_s for trials in found.values() for each in trials]
    kept = float(np.median(rests)) <= REST_BOUND_S
    print(f"the rest: {interval(rests)}; bound {1e3 * REST_BOUND_S:.0f} ms: {'kept' if kept else 'MISSED'}")
    return kept


def work() -> None:
    """Keep the trivial job's pods up; for each line of the input run a trial, and print its harness time in seconds."""
    plan = session.make_plan(study.parse(STUDY))
    files = study_files.make_files(plan)
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create_or_open(Path(folder) / "results", plan, {}) as store,
        runner.running(plan, store, files, Silent(), name=f"bench{os.getpid()}", say=sys.stderr.write) as run_,
        ExitStack() as stack,
    ):
        key, one = next(iter(run_.pods(stack).items()))
        print("ready", flush=True)
        for number, _ in enumerate(sys.stdin):
            started = time.perf_counter()
            trial = run_.trial(TrialKey(cell=key, round=number, block=0, attempt=0), 0, one)
            wall_s = time.perf_counter() - started
            assert isinstance(trial.outcome, Completed), trial.outcome
            print(wall_s - trial.elapsed_s, flush=True)


def against(other: Path, runs: int) -> bool:
    """Print the paired difference of this checkout's harness time and another's; return whether it is in its bound."""
    with ExitStack() as stack:
        places = Path(__file__).absolute().parents[1], other.absolute()
        workers = [stack.enter_context(_worker(place)) for place in places]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        order = random.Random(1)
        differences = []
        for number in range(runs + 3):
            times = {}
            for each in order.sample((0, 1), 2):
                pipe, answer = workers[each].stdin, workers[each].stdout
                assert pipe is not None
                assert answer is not None
                pipe.write("trial\n")
                pipe.flush()
                times[each] = float(answer.readline())
            if number >= 3:
                differences.append(times[0] - times[1])
    low, high = scipy.stats.bootstrap((differences,), np.mean, method="BCa", rng=1).confidence_interval
    kept = bool(high < AGAINST_BOUND_S)
    print(f"a trial's harness time, this checkout minus {other.name}, in turns")
    mean_s = float(np.mean(differences))
    print(f"  mean {1e3 * mean_s:.2f} ms [{1e3 * low:.2f}, {1e3 * high:.2f}], median {interval(differences)}")
    print(f"bound of the upper end {1e3 * AGAINST_BOUND_S:.0f} ms: {'kept' if kept else 'MISSED'}")
    return kept


@contextmanager
def _worker(checkout: Path) -> Iterator[subprocess.Popen[str]]:
    argv = (sys.executable, str(checkout / "benchmarks" / "harness.py"), "--worker")
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    process = subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.communicate()


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
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--environments", type=lambda text: text.split(","), default=[])
    parser.add_argument("--study", type=Path, default=QUICK_START)
    parser.add_argument("--against", type=Path, help="another checkout of tare")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    if options.against:
        return 0 if against(options.against, options.runs) else 1
    if options.parts:
        return 0 if tell_parts(parts_of(some_of(options.study, options.environments), options.runs)) else 1
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
