"""What the live page costs a run: `python benchmarks/live.py [--pairs 6] [--rounds 20]` (root, quiet machine).

A small study on the lab runs with a client that follows its page as a browser does (the page, then progress a second
after each answer, the page again where the report is newer), and without `--live`, in random order. Two figures: the
share of a core that the page's own accounts show, and the paired difference of the CPU time of the thread that runs
the study and renders the page, with the mean and its 95 % interval over pairs, as a share of the run's time. Exits 1
if the upper end of the first is above its bound (1 %).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.stats

from tare import study
from tare.cli import session
from tare.live import Door, Live
from tare.model import Plan
from tare.run.progress import Progress
from tare.store.writer import Store

BOUND = 0.01
STUDY = """
name: live
cluster: {{lab: {{nodes: 2}}}}
environments: [bare, bare+bridge]
placements: [{{nodes: 2, ranks_per_node: 1}}]
workloads:
  micro: {{kernels: [{{latency: {{message_bytes: 8, iterations: 2000}}}}, {{barrier: {{iterations: 2000}}}}]}}
repetition: {{rounds: {rounds}, max_rounds: {rounds}, turns: 1, reruns: 0}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Of one run: its time, the CPU time of its thread, what the page accounted for, and its answers."""

    wall_s: float
    cpu_s: float
    page_s: float = 0.0
    waited_s: float = 0.0
    answers: int = 0
    reports: int = 0

    @property
    def share(self) -> float:
        """Return the page's share of a core."""
        return self.page_s / self.wall_s


def cpu_s() -> float:
    """Return the CPU time of this thread: the run's own."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_utime + used.ru_stime


class Client(threading.Thread):
    """Follow a page until it says that the run has ended."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.answers = 0
        self.reports: set[str] = {"0"}

    def run(self) -> None:
        shown = "0"
        try:
            self._get(self._url)
            while True:
                state = json.loads(self._get(f"{self._url.replace('/?', '/progress?')}&report={shown}"))
                self.answers += 1
                if state["ended"]:
                    return
                if state["report"] != shown:
                    shown = state["report"]
                    self.reports.add(shown)
                    self._get(self._url)
                else:
                    time.sleep(1.0)
        except OSError:
            return

    def _get(self, url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=600) as answer:
            data: bytes = answer.read()
        return data


def silent_run(plan: Plan, folder: Path) -> Run:
    """Run the study without the page."""
    _, files = session.make_ready(plan)
    with Store.create_or_open(folder, plan, session.facts(plan, files)) as store, Progress(plan) as progress:
        began_s, used_s = time.monotonic(), cpu_s()
        session.execute(plan, store, files, progress)
        return Run(wall_s=time.monotonic() - began_s, cpu_s=cpu_s() - used_s)


def followed_run(plan: Plan, folder: Path) -> Run:
    """Run the study with a client that follows its page."""
    _, files = session.make_ready(plan)
    with Store.create_or_open(folder, plan, session.facts(plan, files)) as store, Door.open() as door:
        client = Client(door.url)
        with Progress(plan) as progress, Live(progress, door, store, lambda: session.summary_of(store, folder)) as live:
            client.start()
            began_s, used_s = time.monotonic(), cpu_s()
            session.execute(plan, store, files, live)
            wall_s, used_s = time.monotonic() - began_s, cpu_s() - used_s
        client.join(5)
    budget = live.budget
    return Run(
        wall_s=wall_s,
        cpu_s=used_s,
        page_s=budget.answers.used_s + budget.rendering.used_s,
        waited_s=budget.waiting.used_s,
        answers=client.answers,
        reports=len(client.reports) - 1,
    )


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % t interval."""
    mean, half = float(np.mean(values)), float(scipy.stats.t.ppf(0.975, len(values) - 1) * scipy.stats.sem(values))
    return mean, mean - half, mean + half


def text(name: str, values: Sequence[float]) -> str:
    """Return a share in per cent with its interval."""
    mean, low, high = interval(values)
    return f"{name}: {100 * mean:.2f} % of a core [{100 * low:.2f}, {100 * high:.2f}], n = {len(values)}"


def main() -> int:
    """Run the pairs and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    plan = session.make_plan(study.parse(STUDY.format(rounds=options.rounds)))
    dice, shares, differences = random.Random(1), [], []
    for pair in range(options.pairs):
        with tempfile.TemporaryDirectory() as folder:
            runs = {}
            for name, run in sorted((("live", followed_run), ("silent", silent_run)), key=lambda _: dice.random()):
                runs[name] = run(plan, Path(folder) / name)
        live, silent = runs["live"], runs["silent"]
        shares.append(live.share)
        differences.append((live.cpu_s - silent.cpu_s) / live.wall_s)
        print(
            f"pair {pair + 1}: {live.wall_s:.1f} s with and {silent.wall_s:.1f} s without, page {live.page_s:.3f} s of "
            f"CPU time, waited {live.waited_s:.2f} s, {live.answers} answers, {live.reports} reports",
            flush=True,
        )
    print(text("the page", shares))
    print(text("with against without", differences))
    return int(interval(shares)[2] > BOUND)


if __name__ == "__main__":
    sys.exit(main())
