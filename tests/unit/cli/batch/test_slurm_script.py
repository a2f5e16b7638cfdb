"""What the batch script of Slurm does when its job ends in one way or another."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from factory_batch import JOB
from tare.cli.batch import SYSTEMS
from tare.errors import EXIT_UNFINISHED
from unit.scripts import script
from waiting import wait_until

SLURM = SYSTEMS["slurm"]
MEASURED = '{"outcome":{"type":"Completed"}}'
INTERRUPTED = '{"outcome":{"type":"Interrupted"}}'
RUNS = "JobState=RUNNING"


@dataclass(frozen=True, kw_only=True)
class Played:
    """How the script ended, what it printed, and what it asked Slurm for."""

    status: int
    printed: str
    asked: str


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A folder with the programs that the script finds."""

    folder: Path

    def play(
        self, run: str, *, told: int | None = None, state: str = RUNS, before: str = RUNS, **variables: str
    ) -> Played:
        """Run the script with `run` as tare's part, tell it to end by the signal `told`, and wait for its end."""
        study = script(self.folder / "study", run)
        script(
            self.folder / "scontrol",
            f'echo "$@" >> {self.folder}/asked; [ "$1" = requeue ] || '
            f'echo "JobId=7 $(cat {self.folder}/state 2> /dev/null || echo {before}) x=1"',
        )
        os.mkfifo(self.folder / "held")
        held = os.open(self.folder / "held", os.O_RDWR)  # what a study that goes on reads from: it ends with this test
        job = self.folder / "job.sh"
        job.write_text(SLURM.script(replace(JOB, command=(str(study),), results=self.folder)))
        path = f"{self.folder}:{os.environ['PATH']}"
        env = {"PATH": path, "SLURM_JOB_ID": "9", **variables}
        process = subprocess.Popen(
            ("sh", str(job)), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if told is not None:
            wait_until((self.folder / "began").exists, "the study runs")
            (self.folder / "state").write_text(state)
            process.send_signal(told)
        printed, _ = process.communicate()
        os.close(held)
        asked = self.folder / "asked"
        return Played(status=process.returncode, printed=printed, asked=asked.read_text() if asked.exists() else "")

    def until_told(self, *lines: str, status: int = 130) -> str:
        """Return a run that measures some lines and goes on until it is told to end."""
        (self.folder / "lines").write_text("".join(f"{line}\n" for line in lines))
        written = f"cat {self.folder}/lines >> {self.folder}/trials.jsonl"
        return (
            f"exec 3< {self.folder}/held; trap '{written}; kill $!; exit {status}' TERM; "
            f"cat <&3 > /dev/null 2>&1 & touch {self.folder}/began; wait"
        )


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(folder=tmp_path)


@pytest.mark.parametrize("status", [0, 1, 3, 4, 5])
def test_a_study_that_ends_by_itself_ends_the_job_with_its_exit_code(stage: Stage, status: int) -> None:
    played = stage.play(f"exit {status}")
    assert played.status == (0 if status in (1, 3) else status)  # results, which Slurm would call failures
    assert "requeue" not in played.asked


AWAY, BEFORE = (f"{RUNS} PreemptTime=2026-11-23T{hour}:00:00" for hour in (18, 17))
ARRAY = {"SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "6"}
LONGER = "a round does not fit into the time limit: submit the study again with a longer --time"


@pytest.mark.parametrize(
    ("lines", "told", "state", "variables", "job", "said"),
    [
        ((MEASURED, INTERRUPTED), signal.SIGUSR1, RUNS, {}, "9", "queued again and will resume"),
        ((INTERRUPTED,), signal.SIGTERM, AWAY, {}, "9", "another job takes the nodes"),
        ((MEASURED,), signal.SIGUSR1, RUNS, ARRAY, "9_6", ""),  # 9 alone would be all jobs of the array
    ],
    ids=["its time is up", "it must make way", "of an array"],
)
def test_a_job_is_queued_again_if_it_has_measured_something_or_must_make_way(
    stage: Stage, lines: tuple[str, ...], told: int, state: str, variables: dict[str, str], job: str, said: str
) -> None:
    played = stage.play(stage.until_told(*lines), told=told, state=state, **variables)
    assert f"requeue {job}\n" in played.asked
    assert said in played.printed


def test_a_study_that_says_that_its_allocation_ends_is_queued_again(stage: Stage) -> None:
    played = stage.play(f"echo '{MEASURED}' >> {stage.folder}/trials.jsonl; exit {EXIT_UNFINISHED}")
    assert "requeue 9\n" in played.asked


@pytest.mark.parametrize(
    ("lines", "told", "before", "state", "variables", "said"),
    [
        ((), signal.SIGUSR1, RUNS, RUNS, {}, LONGER),
        ((INTERRUPTED,), signal.SIGUSR1, RUNS, RUNS, {}, LONGER),
        ((INTERRUPTED, INTERRUPTED), signal.SIGUSR1, RUNS, RUNS, {}, LONGER),
        ((MEASURED,), signal.SIGUSR1, RUNS, RUNS, {"SLURM_RESTART_COUNT": "3"}, LONGER),
        ((MEASURED,), signal.SIGTERM, RUNS, "JobState=CANCELLED", {}, ""),
        ((MEASURED,), signal.SIGUSR1, RUNS, "JobState=CANCELLED", {}, ""),
        ((MEASURED,), signal.SIGTERM, BEFORE, BEFORE, {}, ""),
        ((MEASURED,), signal.SIGTERM, RUNS, f"{RUNS} PreemptTime=None", {}, ""),
    ],
    ids=[
        "nothing measured", "interrupted", "interrupted twice", "too often", "cancelled", "cancelled when time is up",
        "made way before", "told by someone else",
    ],
)  # fmt: skip
def test_a_job_that_is_cancelled_or_measures_nothing_ends_and_is_not_queued_for_ever(
    stage: Stage, lines: tuple[str, ...], told: int, before: str, state: str, variables: dict[str, str], said: str
) -> None:
    (stage.folder / "trials.jsonl").write_text(f"{MEASURED}\n")
    played = stage.play(stage.until_told(*lines), told=told, before=before, state=state, **variables)
    assert "requeue" not in played.asked
    assert played.status == 130
    assert said in played.printed
