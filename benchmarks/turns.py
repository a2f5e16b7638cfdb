"""How much launches in turns differ: `benchmarks/turns.py [--npb] [--turns 10,25,50]` (root, quiet), or `--of RESULTS`.

Five equal environments on two nodes of a lab run hpcg, minife and kmi as studies/pearc18-applications.yaml does, or the
NPB as studies/cloudlab-npb.yaml does, in so many turns; in one turn each launch runs on its own. The figure is the
standard deviation of ln(cost / that of another environment), within rounds and pooled over them (four degrees of
freedom a round), with its 95 % interval: of the typical cost, that of the median turn, and of the mean, that of whole
runs. Nothing is bounded: it says how many rounds a study needs. Takes four minutes for each number of turns.

`--of RESULTS` measures nothing. It gives the same of the results of a study, after the effects of its environments are
removed, for whatever its launches have: the typical cost, the mean, and the mean and spread of the typical turn; and
"by turns alone", what typical costs would differ by if turns differed independently of their launch (bootstrap of the
turns of each two launches).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import scipy.stats

from tare.analysis import stats
from tare.model import Completed, Metric, Trial
from tare.store.results import read_only
from tare.workloads.output import BY_TURN

STUDY = """
name: turns
cluster: {{lab: {{nodes: 2}}}}
baseline: bare
a_a: false
environments:
  bare:
  second: {{runtime: bare, env: {{EQUAL: "2"}}}}
  third: {{runtime: bare, env: {{EQUAL: "3"}}}}
  fourth: {{runtime: bare, env: {{EQUAL: "4"}}}}
  fifth: {{runtime: bare, env: {{EQUAL: "5"}}}}
placements: [{{nodes: 2, ranks_per_node: 1}}]
workloads: {workloads}
repetition: {{rounds: {rounds}, turns: {turns}}}
"""
PEARC18 = {
    "hpcg": "hpcg:nx=32,ny=32,nz=32,seconds=0,pace=official",
    "minife": "minife:nx=64,ny=64,nz=64,pace=official",
    "kmi": "kmi:reads=4096,queries=20000",
}
CLASSES = {"bt": "W", "cg": "A", "ep": "W", "ft": "W", "is": "A", "lu": "W", "sp": "W"}
NPB = {name: f"npb-{name}:class={letter}" for name, letter in CLASSES.items()}
ENDED = (0, 1, 3)
"""Exit codes of a study that was measured, with whatever verdicts: one in twenty equal environments differs."""


COSTS: Final[Mapping[str, Callable[[Metric], float]]] = {
    "typical": lambda metric: metric.typical_s,
    "mean": lambda metric: metric.value,
}


def logs_of(trials: tuple[Trial, ...], cost: Callable[[Metric], float]) -> Mapping[str, Mapping[int, list[float]]]:
    """Return the logarithms of costs by workload and round."""
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        if isinstance(trial.outcome, Completed):
            (metric,) = trial.outcome.metrics
            found[trial.key.cell.partition(" / ")[0]][trial.key.round].append(math.log(cost(metric)))
    return found


def deviation(rounds: Mapping[int, list[float]]) -> str:
    """Return the standard deviation of differences within rounds, with its interval and the number of rounds."""
    whole = [logs for logs in rounds.values() if len(logs) > 1]
    freedom = sum(len(logs) - 1 for logs in whole)
    squares = 2 * sum((len(logs) - 1) * statistics.variance(logs) for logs in whole)
    low, high = (math.sqrt(squares / scipy.stats.chi2.ppf(share, freedom)) for share in (0.975, 0.025))
    return f"{math.sqrt(squares / freedom):.4f} [{low:.4f}, {high:.4f}], n = {len(whole)} rounds"


def measured(folder: Path, specs: Mapping[str, str], turns: int, rounds: int) -> tuple[Trial, ...]:
    """Run the study in so many turns, and return its trials."""
    workloads = json.dumps({name: {"miniapp": spec} for name, spec in specs.items()})
    study = folder / f"turns-{turns}.yaml"
    study.write_text(STUDY.format(workloads=workloads, turns=turns, rounds=rounds))
    argv = (sys.executable, "-m", "tare.cli.app", "run", str(study), "-o", str(folder / f"r{turns}"))
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ended.returncode not in ENDED:
        raise SystemExit(ended.stderr)
    return tuple(read_only(folder / f"r{turns}").trials)


FIELDS: Final[Mapping[str, Callable[[Metric], float | None]]] = {
    **COSTS,
    "mean of the typical turn": lambda metric: metric.turn_mean_s,
    "spread": lambda metric: metric.p99_s - metric.median_s,
    "spread of the typical turn": lambda metric: metric.turn_spread_s,
}
RESAMPLES: Final = 200

Rows = Mapping[tuple[int, int], Mapping[str, stats.FloatArray]]
"""Logarithms by block and environment."""


def complete(rows: Rows) -> stats.FloatArray | None:
    """Return the blocks that have all environments and equally many numbers: shape (blocks, environments, numbers)."""
    most = max(map(len, rows.values()))
    whole = [tuple(row[name] for name in sorted(row)) for row in rows.values() if len(row) == most]
    alike = [row for row in whole if len({each.size for each in row}) == 1 and row[0].size == whole[0][0].size]
    return np.array(alike) if most > 1 and len(alike) > 1 else None


def left(values: stats.FloatArray) -> str:
    """Return the standard deviation of a difference of two environments after their effects are removed.

    `values`: logarithms, shape (blocks, environments).
    """
    rest = values - values.mean(axis=1, keepdims=True)
    rest = rest - rest.mean(axis=0, keepdims=True)
    freedom = (values.shape[0] - 1) * (values.shape[1] - 1)
    return f"{math.sqrt(2 * float((rest**2).sum()) / freedom):.4f}, n = {values.shape[0]} blocks"


def by_turns_alone(turns: stats.FloatArray) -> str:
    """Return the root mean square of the bootstrap deviation of the median difference of two launches' turns.

    `turns`: logarithms, shape (blocks, environments, turns).
    """
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, turns.shape[2], (RESAMPLES, turns.shape[2]))
    pairs = [(one, other) for one in range(turns.shape[1]) for other in range(one)]
    differences = (block[one] - block[other] for block in turns for one, other in pairs)
    variances = [np.median(each[drawn], axis=1).var() for each in differences]
    return f"{math.sqrt(float(np.mean(variances))):.4f}, {turns.shape[2]} turns"


def told(folder: Path) -> None:
    """Print how much the launches of results differ, by workload and metric."""
    rows: defaultdict[tuple[str, str], defaultdict[tuple[int, int], dict[str, stats.FloatArray]]]
    rows = defaultdict(lambda: defaultdict(dict))
    results = read_only(folder)
    for trial in results.trials:
        workload, _, environment = trial.key.cell.split(" / ", 2)
        samples = results.columns(trial)
        count = round(trial.counters.get("turns", 1))
        for metric in trial.outcome.metrics if isinstance(trial.outcome, Completed) else ():
            found = {name: cost for name, read in FIELDS.items() if (cost := read(metric)) is not None and cost > 0}
            numbers = {name: np.log([cost]) for name, cost in found.items()}
            parts, iterations = (samples.get(f"{metric.key}/{column}") for column in (BY_TURN, "max_s"))
            if parts is not None:
                numbers["by turns alone"] = np.log(parts)
            elif iterations is not None and (logs := stats.turn_logs(iterations, count)) is not None:
                numbers["by turns alone"] = logs.medians
            for name, logs_of_launch in numbers.items():
                key = f"{workload}, {metric.label}", name
                rows[key][trial.key.round, trial.key.block][environment] = logs_of_launch
    for (what, name), of_blocks in rows.items():
        values = complete(of_blocks)
        if values is not None:
            print(f"{what}, {name}: {left(values[:, :, 0]) if values.shape[2] == 1 else by_turns_alone(values)}")


def main() -> int:
    """Measure each number of turns, and print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", default="10,25,50")
    parser.add_argument("--npb", action="store_true")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--of", type=Path)
    given = parser.parse_args()
    if given.of:
        told(given.of)
        return 0
    specs = NPB if given.npb else PEARC18
    with tempfile.TemporaryDirectory() as folder:
        for turns in map(int, given.turns.split(",")):
            trials = measured(Path(folder), specs, turns, given.rounds)
            for name, cost in COSTS.items():
                for workload, rounds in logs_of(trials, cost).items():
                    print(f"{turns} turns, {workload}, {name}: {deviation(rounds)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
