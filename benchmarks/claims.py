"""How long `tare claims` takes over the results of all publications: `python benchmarks/claims.py [--runs 3]`.

Every study that tests a claim gets made-up results of its full size: all of its cells, rounds and metrics, with what a
launch in a lab records, and the figures that claims compare. Nothing is launched. `tare claims` then judges all claims
on all of them, in a process of its own. Exits 1 if the median is above its bound (5 s). With `--on FOLDER`, whose
folders are results of such studies (as results/papers/003), these take the place of the made-up ones.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / name) for name in ("src", "tests")]

import large_results  # noqa: E402 - found through the line above
from tare.compare.claims import read_paper  # noqa: E402 - found through the line above
from tare.compare.claims.figures import FIGURE  # noqa: E402 - found through the line above
from tare.compare.claims.judge import places_of, studies_of  # noqa: E402 - found through the line above
from tare.compare.claims.model import Test  # noqa: E402 - found through the line above
from tare.model import Cell, Completed, Figure, Metric, MetricInfo, Plan  # noqa: E402 - found through the line above
from tare.store.writer import Store  # noqa: E402 - found through the line above
from tare.study import load  # noqa: E402 - found through the line above
from tare.study.plan.cells import block_order, expand  # noqa: E402 - found through the line above
from tare.workloads import plugin_of  # noqa: E402 - found through the line above

BOUND_S = 5.0
CLAIMS = sorted((REPOSITORY / "claims").glob("*.yaml"))
SPREAD = 0.02


def studies() -> list[str]:
    """Return the studies that test claims."""
    every = (claim.by for path in CLAIMS for claim in read_paper(path).claims.values())
    return sorted({name for by in every if isinstance(by, Test) for name in studies_of(by)})


def figures() -> tuple[Figure, ...]:
    """Return all figures that claims compare."""
    tests = (claim.by for path in CLAIMS for claim in read_paper(path).claims.values() if isinstance(claim.by, Test))
    metrics = {place.metric for test in tests for place in places_of(test)}
    names = sorted(each.removeprefix(FIGURE) for each in metrics if each.startswith(FIGURE))
    return tuple(Figure(key=name, label=name, value=1.0) for name in names)


def metric_of(info: MetricInfo, dice: random.Random) -> Metric:
    """Return a metric with a made-up cost."""
    cost_s = 1e-3 * dice.lognormvariate(0, SPREAD)
    return Metric(
        key=info.key, label=info.label, kind=info.kind, value=cost_s, statistic=info.statistic, median_s=cost_s,
        p99_s=1.5 * cost_s, rank_average_s=cost_s, done_per_sample=info.done_per_sample, rate_unit=info.rate_unit,
        message_bytes=info.message_bytes, judged=info.judged,
    )  # fmt: skip


def rounds_of(plan: Plan) -> Iterator[tuple[Cell, int, int]]:
    """Yield each launch of a plan: its cell, round and position."""
    cells = {cell.key: cell for cell in plan.cells}
    for round_ in range(plan.study.repetition.rounds):
        for position, key in enumerate(block_order(plan, round_, 0)):
            yield cells[key], round_, position


def make(study: str, folder: Path, known: tuple[Figure, ...]) -> int:
    """Write results of a study; return how many launches they have."""
    plan = expand(load(REPOSITORY / "studies" / f"{study}.yaml"), lambda _environment, _placement: None)
    dice = random.Random(study)
    with mock.patch("os.fdatasync"), Store.create_or_open(folder, plan, {"machine": "made up", "cores": 2}) as store:
        for number, (cell, round_, position) in enumerate(rounds_of(plan)):
            infos = plugin_of(cell.workload).metrics(cell.workload, cell.placement)
            outcome = Completed(metrics=tuple(metric_of(info, dice) for info in infos), figures=known)
            store.append(large_results.trial_of(cell, round_, position, number, dice, outcome))
        return store.count


def judged_s(folders: list[Path]) -> float:
    """Judge all claims on results, and return how long that took."""
    on = [word for folder in folders for word in ("--on", str(folder))]
    argv = (sys.executable, "-m", "tare.cli.app", "claims", *on, "--markdown")
    started = time.perf_counter()
    ended = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 3):
        raise SystemExit(ended.stderr)
    return time.perf_counter() - started


def main() -> int:
    """Make the results, judge the claims, print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--on", type=Path, action="append", default=[])
    given = parser.parse_args()
    real = {path.name: path for folder in given.on for path in folder.iterdir() if (path / "plan.json").exists()}
    with tempfile.TemporaryDirectory() as folder:
        launches, folders = 0, list[Path]()
        for study in studies():
            path = real.get(study, Path(folder) / study)
            launches += 0 if study in real else make(study, path, figures())
            folders.append(path)
        print(f"{len(folders)} studies, {len(real)} of them real; {launches} made-up launches", flush=True)
        times = [judged_s(folders) for _ in range(given.runs)]
    print(f"tare claims: {', '.join(f'{value:.2f}' for value in times)} s (n = {len(times)}), bound {BOUND_S} s")
    return 0 if statistics.median(times) <= BOUND_S else 1


if __name__ == "__main__":
    sys.exit(main())
