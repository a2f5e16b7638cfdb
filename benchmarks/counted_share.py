"""How much of a study's wall time is launches that count: `python benchmarks/counted_share.py [--launch-s 9]`.

With `--results FOLDER --wall-s SECONDS` it tells this of a real run, whose wall time is that of `time tare quick ...`.
Without, it simulates one.

`tare quick` with a program of 9 s, twelve environments and six rounds, on fakes: the runner is the real one, with its
rounds, blocks, calibration and repeats. Time is virtual, so that it takes seconds: a launch takes what the program and
its start take, a round what its pods take. The vCPUs' state is that of `counted_share.cores`, samples that `tare-cores`
took on a virtual machine of two cores while other programs ran on it; they are repeated for as long as it takes, with a
program of any length. Exits 1 where launches that count are less than 70 % of the wall time, for a 9 s program.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from tare.analysis.summary.select import select
from tare.cli import session
from tare.clusters import Site
from tare.model import Cell, Environment, LabSpec, Placement, Plan, Repetition, Study, Trial, TrialKey, Workload
from tare.run import runner
from tare.run.core_watch import CoreWatch
from tare.run.outcome import ReadyCell
from tare.store.writer import Store, read_only
from tare.study.feasibility import study_files
from tare.system.process import Result

BOUND = 0.70
RECORDED = Path(__file__).with_name("counted_share.cores")
START_S = 1.0
"""From the start of a launcher to the end of MPI_Init and back, in a container (`benchmarks/harness.py --parts`)."""

HARNESS_S = 0.3
PODS_S = 15.0
"""Of two nodes, in eleven environments."""


@dataclass(slots=True, kw_only=True)
class Virtual:
    """A machine on which time passes only in launches and in making pods; it is a watcher of the run, too."""

    launch_s: float
    now_s: float = 0.0
    launches: list[float] = field(default_factory=list)

    def launched(self, ready: ReadyCell, padding: int, site: Site) -> Result:
        """Stand in for `run_launch`."""
        began_s, elapsed_s = self.now_s, self.launch_s + START_S
        self.now_s += elapsed_s + HARNESS_S
        hosts = [pod.node.name for pod in ready.deployed.pods]
        ranks = [
            {"type": "rank", "rank": rank, "hostname": host, "boot_id": host, "pid": rank + 1, "namespaces": {}}
            for rank, host in enumerate(hosts)
        ]
        said = [
            {"type": "start", "protocol": 1, "ranks": len(ranks), "mpi_library": "virtual", "init_s": 0.1},
            *ranks,
            {"type": "wall", "wall_s": self.launch_s},
            {"type": "end"},
        ]
        stdout = "".join(f"@tare {json.dumps(record)}\n" for record in said)
        return Result(argv=ready.argv, status=0, stdout=stdout, stderr="", elapsed_s=elapsed_s, began_s=began_s)

    def round_started(self, number: int, attempt: int) -> None:
        """Let the time pass in which pods are made."""
        self.now_s += PODS_S

    def calibrated(self, cell: Cell, elapsed_s: float) -> None:
        pass

    def launch_started(self, key: TrialKey, done: int, total: int) -> None:
        pass

    def launching(self, keys: Sequence[TrialKey]) -> None:
        pass

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        pass


def recorded(file: Path, until_s: float) -> CoreWatch:
    """Return the recorded samples, one after the other and again from the first, for so long."""
    lines = [tuple(map(float, line.split())) for line in file.read_text().splitlines()]
    first_s, last_s = lines[0][0], lines[-1][0]
    period_s = (last_s - first_s) * (1 + 1 / len(lines))
    watch = CoreWatch()
    for turn in range(int(until_s / period_s) + 1):
        for moment_s, hand_over_ns, counting_ns in lines:
            watch.moments_s.append(moment_s - first_s + turn * period_s)
            watch.hand_overs_s.append(hand_over_ns * 1e-9)
            watch.countings_s.append(counting_ns * 1e-9)
    return watch


def quick(environments: int, rounds: int) -> Study:
    """Return a study as that of `tare quick`, on fakes; the baseline's copy is one of the environments."""
    names = ["fake", *(f"fake-{number}" for number in range(1, environments - 1))]
    return Study(
        name="quick-app",
        cluster="fake",
        lab=LabSpec(nodes=2, cores_per_node=1),
        baseline="fake",
        environments=tuple(Environment(name=name, runtime="fake", network="fake", mpi="fake") for name in names),
        placements=(Placement(nodes=2),),
        workloads=(Workload(name="app", command=("/bin/true",), time_limit_s=600.0),),
        repetition=Repetition(rounds=rounds, max_rounds=rounds),
    )


def share(launch_s: float, environments: int, rounds: int) -> float:
    """Run the study, print what came of it, and return the share of its wall time that launches that count took."""
    plan = session.make_plan(quick(environments, rounds))
    files = study_files.make_files(plan, print)
    machine = Virtual(launch_s=launch_s)
    longest_s = 2 * rounds * (PODS_S + environments * (launch_s + START_S + HARNESS_S))
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(runner, "run_launch", machine.launched),
        Store.create_or_open(Path(folder) / "results", plan, {}) as store,
        runner.running(plan, store, files, machine, name="share", say=print) as run,
    ):
        run.cores = recorded(RECORDED, longest_s)
        run.blocks()
        trials = list(store.trials)
    print(f"program of {launch_s:g} s, {environments} environments, {rounds} rounds")
    return told(plan, trials, machine.now_s)


def told(plan: Plan, trials: Sequence[Trial], wall_s: float) -> float:
    """Print how much of a run's wall time its launches took that count, and return that share."""
    counted = [trial for own in select(plan, trials).trials.values() for trial in own.values()]
    counted_s = sum(trial.elapsed_s for trial in counted)
    repeats = sum(trial.key.repeat > 0 for trial in trials)
    elsewhere = sum(trial.noise.get("cores_elsewhere", 0.0) > 0.1 for trial in trials)
    print(f"  {len(trials)} launches, {repeats} of them repeats; in {elsewhere} the vCPUs were elsewhere at times")
    print(f"  {len(counted)} count: {counted_s:.0f} s, {counted_s / wall_s:.1%} of {wall_s:.0f} s of wall time")
    return counted_s / wall_s


def main() -> int:
    """Simulate and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--launch-s", type=float, default=9.0)
    parser.add_argument("--environments", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--results", type=Path, help="the results folder of a real run")
    parser.add_argument("--wall-s", type=float, help="how long that run took")
    options = parser.parse_args()
    started = time.monotonic()
    if options.results:
        if not options.wall_s:
            parser.error("--results needs --wall-s")
        results = read_only(options.results)
        return 0 if told(results.plan, list(results.trials), options.wall_s) >= BOUND else 1
    found = share(options.launch_s, options.environments, options.rounds)
    kept = found >= BOUND
    print(f"bound {BOUND:.0%}: {'kept' if kept else 'MISSED'} (simulated in {time.monotonic() - started:.1f} s)")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
