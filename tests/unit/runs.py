"""A study on fakes of known cost, and one run of it that tests look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.cli import session
from tare.model import (
    Cell,
    Environment,
    KernelSpec,
    LabSpec,
    Placement,
    Repetition,
    Study,
    Summary,
    Trial,
    TrialKey,
    Workload,
)
from tare.run import runner
from tare.store.writer import Store, read_only
from tare.study.feasibility.study_files import make_files

TRUTH = 0.5
CELLS = 3
ROUNDS = 10
FAULTS = {
    "exit": "it ended with status 9: fake rank 1 was killed",
    "hang": "it did not end within its time limit of 0.4 s",
    "garbage": "is broken: @tare {not json",
    "cut": "the output is cut off: its end record is missing",
    "wrong": "wrong data in latency:bytes=8",
}


def known_study(*, rounds: int = ROUNDS, time_limit_s: float = 600.0, kernels: int = 5) -> Study:
    return Study(
        name="known",
        cluster="fake",
        lab=LabSpec(nodes=2, cores_per_node=1),
        baseline="fake",
        environments=(
            Environment(name="fake", runtime="fake", network="fake", mpi="fake"),
            Environment(name="fake-slow", runtime="fake", network="fake-slow", mpi="fake"),
        ),
        placements=(Placement(nodes=2, ranks_per_node=1),),
        workloads=(
            Workload(
                name="micro",
                kernels=(
                    KernelSpec(kernel="latency", message_bytes=8),
                    KernelSpec(kernel="latency", message_bytes=64 << 10),
                    KernelSpec(kernel="bw", message_bytes=1 << 20),
                    KernelSpec(kernel="barrier"),
                    KernelSpec(kernel="spacing"),
                )[:kernels],
                time_limit_s=time_limit_s,
            ),
        ),
        repetition=Repetition(rounds=rounds, max_rounds=rounds),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    folder: Path
    code: int
    said: str

    @property
    def summary(self) -> Summary:
        return session.summary_of(read_only(self.folder))

    @property
    def trials(self) -> list[Trial]:
        return list(read_only(self.folder).trials)


class Broken(Exception):
    """What ends the tool in the middle."""


class BreakAfter:
    """A watcher that raises when so many trials have ended."""

    def __init__(self, trials: int, error: type[BaseException] = Broken) -> None:
        self._left, self._error = trials, error

    def round_started(self, number: int, attempt: int) -> None:
        pass

    def calibrated(self, cell: Cell, elapsed_s: float) -> None:
        pass

    def launch_started(self, key: TrialKey, done: int, total: int) -> None:
        pass

    def launching(self, keys: Sequence[TrialKey]) -> None:
        pass

    def trial_ended(self, trial: Trial, done: int, total: int) -> None:
        self._left -= 1
        if self._left == 0:
            raise self._error


def run_with(watcher: runner.Watcher, stated: Study, folder: Path) -> None:
    plan = session.make_plan(stated)
    files = make_files(plan)
    with Store.create_or_open(folder, plan, session.facts(plan, files)) as store:
        session.execute(plan, store, files, watcher)
