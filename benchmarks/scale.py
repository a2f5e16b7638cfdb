"""Large studies: 20,000 trials in store, resume, explain and report, and 1,000 nodes: `python benchmarks/scale.py`.

    python benchmarks/scale.py [--trials 20000] [--samples 334] [--nodes 1000] [--runs 3] [--appends 200]
                               [--folder FOLDER]

Two studies on the fake cluster are generated, whose trials record what those of a lab do: `wide` has 33 environments in
100 groups, `deep` 11 environments in one group and as many rounds as it takes. Each trial has three metrics with so
many samples each: 2 x 10^7 samples in a study. Each study is resumed, explained and reported in a process of its own.
An append is compared with a write and a sync of files of the same sizes, in turns. A job of 4 ranks a node is planned,
placed and mapped on a quarter, a half and all of the nodes. Generating takes about a minute and 700 MB in FOLDER,
which is kept; without it a temporary folder is used. Exit code 1 if a bound is broken.
"""

from __future__ import annotations

import argparse
import os
import resource
import select
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.stats

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("src", "tests")]

import large_cluster  # noqa: E402 - found through the line above
import large_results  # noqa: E402 - found through the line above
from tare.store.results import decode_plan, read_plan  # noqa: E402 - found through the line above
from tare.store.results_folder import Lines, write_samples  # noqa: E402 - found through the line above
from tare.store.writer import Store  # noqa: E402 - found through the line above

APPEND_BOUND_S = 0.002
RESUME_BOUND_S = 3.0
REPORT_BOUND_S = 15.0
REPORT_BOUND_BYTES = 1e9
EXPLAIN_AND_REPORT_BOUND_S = 30.0
EXPLAIN_BOUND_BYTES = 1e9
NODES_BOUND_S = 2.0
MEMORY_EVERY_MS = 500
"""Interval at which the memory of processes is looked at."""
MAPPED = ("plan", "place", "open", "launch", "map")
"""The steps that plan, place and map a job; the others are printed only."""


def bounds(values: list[float]) -> str:
    """Return median and 95 % bootstrap interval in milliseconds."""
    low, high = scipy.stats.bootstrap((values,), np.median, method="percentile", rng=1).confidence_interval
    return f"{1e3 * float(np.median(values)):.2f} ms [{1e3 * low:.2f}, {1e3 * high:.2f}], n = {len(values)}"


def kept(what: str, value: float, bound: float, unit: str) -> bool:
    """Print whether a bound is kept, and return it."""
    print(
        f"  {what}: {value:.2f} {unit}, bound {bound:.2f} {unit}: {'kept' if value <= bound else 'MISSED'}", flush=True
    )
    return value <= bound


def appends(count: int) -> bool:
    """Measure what an append takes beyond a write and a sync of the same sizes."""
    plan = large_results.plan_of(environments=11, groups=1, rounds=-(-count // 11) + 1)
    extra, plain = [], []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name, ExitStack() as stack:
        store = stack.enter_context(Store.create_or_open(Path(name) / "r", plan))
        lines = Lines(Path(name), "plain.jsonl")
        stack.callback(lines.close)
        for number, (trial, columns) in enumerate(large_results.trials_of(plan)):
            before = (Path(name) / "r" / "trials.jsonl").stat().st_size
            started = time.perf_counter()
            store.append(trial, columns)
            append_s = time.perf_counter() - started
            size = (Path(name) / "r" / "trials.jsonl").stat().st_size - before
            started = time.perf_counter()
            if columns:
                write_samples(Path(name) / f"{number % 8}.npz", columns)
            lines.append(b"x" * size)
            plain_s = time.perf_counter() - started
            if number >= 22:  # by then everything is imported and cached
                extra.append(append_s - plain_s)
                plain.append(plain_s)
            if len(extra) == count:
                break
    print(f"store append: a write and a sync {bounds(plain)}; the append adds {bounds(extra)}")
    return kept("append beyond them", 1e3 * statistics.median(extra), 1e3 * APPEND_BOUND_S, "ms")


def work_resume(folder: Path) -> None:
    """Open a folder as a run that resumes it does, and print how long that took."""
    plan = decode_plan(folder, read_plan(folder))
    started = time.perf_counter()
    with Store.create_or_open(folder, plan) as store:
        left = next(store.ledger.remaining(plan), None)
    assert left is None, left
    print(time.perf_counter() - started)


def resumes(folder: Path, runs: int) -> bool:
    """Measure the resume scan."""
    argv = (sys.executable, __file__, "--resume", str(folder))
    times = [float(subprocess.run(argv, check=True, capture_output=True, text=True).stdout) for _ in range(runs)]
    print(f"resume scan: {', '.join(f'{value:.2f}' for value in times)} s (n = {runs})")
    return kept("median", statistics.median(times), RESUME_BOUND_S, "s")


@dataclass(frozen=True, slots=True)
class Used:
    """What a command used: wall time, CPU time, and the peak of the memory of all its processes together."""

    wall_s: float
    cpu_s: float
    peak_bytes: float


def processes_of(pid: int) -> list[int]:
    """Return a process and all that it started."""
    found = [pid]
    for one in found:
        for tasks in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, tasks.read_text().split())
    return found


def memory_of(pid: int) -> float:
    """Return the memory of a process; what it shares with others counts in part (PSS)."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * float(line.split()[1])
    return 0.0


def used_by(*arguments: str) -> Used:
    """Run `tare` with arguments, and return what that used."""
    argv = (sys.executable, "-m", "tare.cli.app", *arguments)
    started = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": sys.path[0]})
    ended, peak_bytes = select.poll(), 0.0
    ended.register(pidfd := os.pidfd_open(process.pid), select.POLLIN)
    while not ended.poll(MEMORY_EVERY_MS):
        peak_bytes = max(peak_bytes, sum(map(memory_of, processes_of(process.pid))))
    os.close(pidfd)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - started
    assert process.returncode in (0, 3, 4), process.returncode
    return Used(wall_s, usage.ru_utime + usage.ru_stime, peak_bytes)


def typical(what: str, used: list[Used]) -> float:
    """Print what each run used, and return the median of the wall times."""
    for name, values in (("s", [each.wall_s for each in used]), ("s of CPU", [each.cpu_s for each in used])):
        print(f"{what}: {', '.join(f'{value:.1f}' for value in values)} {name} (n = {len(used)})")
    return statistics.median(each.wall_s for each in used)


def reports(folder: Path, runs: int) -> bool:
    """Measure `tare explain`, and the report on the terminal and as HTML, each in a process."""
    page = folder.with_suffix(".html")
    explained = [used_by("explain", str(folder)) for _ in range(runs)]
    reported = [used_by("report", str(folder), "--html", str(page)) for _ in range(runs)]
    explain_s, report_s = typical("tare explain", explained), typical("tare report", reported)
    print(f"page {page.stat().st_size / 1e6:.1f} MB")
    return all(
        [
            kept("report", report_s, REPORT_BOUND_S, "s"),
            kept("its peak memory", max(each.peak_bytes for each in reported) / 1e6, REPORT_BOUND_BYTES / 1e6, "MB"),
            kept("explain and report", explain_s + report_s, EXPLAIN_AND_REPORT_BOUND_S, "s"),
            kept("peak of explain", max(each.peak_bytes for each in explained) / 1e6, EXPLAIN_BOUND_BYTES / 1e6, "MB"),
        ]
    )


def trials(folder: Path, count: int, runs: int, samples: int) -> bool:
    """Generate, resume, explain and report both studies."""
    shapes = {"wide": (33, 100, max(1, count // 3300)), "deep": (11, 1, -(-count // 11))}
    good = True
    for name, (environments, groups, rounds) in shapes.items():
        path = folder / name
        if not (path / "plan.json").exists():
            plan = large_results.plan_of(environments=environments, groups=groups, rounds=rounds)
            large_results.write(path.with_name(f"{name}.partial"), plan, per_metric=samples)
            path.with_name(f"{name}.partial").rename(path)
        made = environments * groups * rounds
        size = (path / "trials.jsonl").stat().st_size
        print(f"{name}: {environments} environments x {groups} groups x {rounds:,} rounds = {made:,} trials, "
              f"{size / made:,.0f} bytes each")  # fmt: skip
        good &= resumes(path, runs)
        good &= reports(path, runs)
    return good


def nodes(most: int, runs: int) -> bool:
    """Measure each step on a quarter, a half and all of the nodes."""
    sizes = (most // 4, most // 2, most)
    with tempfile.TemporaryDirectory() as name:
        large_cluster.took(2, Path(name))
        taken = {size: [large_cluster.took(size, Path(name)) for _ in range(runs)] for size in sizes}
    print(f"{'CPU seconds, medians':22s}" + "".join(f"{size:>9,} nodes" for size in sizes) + f"   n = {runs}")
    for step in taken[most][0]:
        medians = [statistics.median(each[step] for each in taken[size]) for size in sizes]
        print(f"{step:22s}" + "".join(f"{value:15.3f}" for value in medians))
    whole = [sum(each[step] for step in (*MAPPED, "openmpi")) for each in taken[most]]
    return kept(f"{most:,} nodes planned, placed and mapped", statistics.median(whole), NODES_BOUND_S, "s")


def main() -> int:
    """Measure and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=334)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--resume", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.resume:
        work_resume(options.resume)
        return 0
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tare-scale-")))
        folder.mkdir(parents=True, exist_ok=True)
        good = nodes(options.nodes, options.runs)
        good &= appends(options.appends)
        good &= trials(folder, options.trials, options.runs, options.samples)
    print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
