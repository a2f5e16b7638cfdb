"""A job that is waited for: why it does not begin is said once for each reason, and its end is noticed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tare.batch import SYSTEMS
from tare.batch.waiting import LONGEST_PAUSE_S, UNSEEN, Waiting
from tare.errors import InfrastructureError

SLURM = SYSTEMS["slurm"]
GONE = "!slurm_load_jobs error: Invalid job id specified"
SILENT = "!slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
RUNS, WAITS = "RUNNING None", "PENDING Resources"


@dataclass(kw_only=True)
class Site:
    """A queue that answers one line after the other (`!` is an error), and a clock that only sleeping moves."""

    folder: Path
    answers: list[str]
    now_s: float = 1000.0
    pauses: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds
        self.answer()

    def answer(self) -> None:
        line = self.answers.pop(0)
        (self.folder / "answer").write_text(line.removeprefix("!") + "\n" if line else "")
        script = f"cat {self.folder}/answer >&2; exit 1" if line.startswith("!") else f"cat {self.folder}/answer"
        (self.folder / "squeue").write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / "squeue").chmod(0o755)

    def wait(self, told_s: float = 10.0) -> None:
        self.answer()
        Waiting(
            system=SLURM, number="7", told_s=told_s, say=self.said.append, sleep=self.sleep, clock=lambda: self.now_s
        ).to_the_end()


def site(folder: Path, monkeypatch: pytest.MonkeyPatch, answers: Sequence[str]) -> Site:
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return Site(folder=folder, answers=list(answers))


@pytest.mark.parametrize("last", [GONE, ""])
def test_a_job_that_is_gone_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str) -> None:
    queue = site(tmp_path, monkeypatch, [WAITS, RUNS, RUNS, "COMPLETING None", last, "never asked for"])
    queue.wait()
    assert queue.answers == ["never asked for"]
    assert queue.said == []


def test_a_reason_is_said_once_after_the_stated_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = site(tmp_path, monkeypatch, [*[WAITS] * 20, GONE])
    queue.wait(told_s=10.0)
    (said,) = queue.said
    assert said.startswith("job 7 has been waiting for 1")
    assert "it waits for nodes that are free (Resources). It stays in the queue" in said
    assert "Ctrl-C ends this command and not the job" in said


def test_another_reason_is_said_as_well_and_the_first_one_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = site(tmp_path, monkeypatch, [*[WAITS] * 9, *["PENDING Priority"] * 3, GONE])
    queue.wait(told_s=5.0)
    assert ["Resources" in said for said in queue.said] == [True, False]
    assert "other jobs are before it (Priority)" in queue.said[1]


def test_nothing_is_said_of_a_job_that_begins_in_time_or_of_which_a_part_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = f"{RUNS}\nPENDING JobArrayTaskLimit"
    queue = site(tmp_path, monkeypatch, [WAITS, WAITS, *[mixed] * 30, WAITS, GONE])
    queue.wait(told_s=20.0)
    assert queue.said == []


def test_the_time_counts_from_when_nothing_of_the_job_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = site(tmp_path, monkeypatch, [*[RUNS] * 20, *["PENDING BeginTime"] * 4, GONE])
    queue.wait(told_s=30.0)
    (said,) = queue.said
    assert 30 <= float(said.split(" s: ")[0].rsplit(" ", 1)[1]) < 30 + LONGEST_PAUSE_S


def test_a_controller_that_is_away_for_a_moment_does_not_end_the_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = site(tmp_path, monkeypatch, [RUNS, *[SILENT] * (UNSEEN - 1), RUNS, *[SILENT] * (UNSEEN - 1), GONE])
    queue.wait()
    assert queue.answers == []


def test_a_controller_that_stays_away_ends_the_waiting_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = site(tmp_path, monkeypatch, [RUNS, *[SILENT] * UNSEEN, "never asked for"])
    with pytest.raises(InfrastructureError, match="slurm does not say what becomes of job 7") as caught:
        queue.wait()
    assert "Unable to contact slurm controller" in caught.value.message
    assert "tare report" in caught.value.remedy
    assert queue.answers == ["never asked for"]


def test_the_pauses_become_longer_and_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = site(tmp_path, monkeypatch, [*[RUNS] * 40, GONE])
    queue.wait()
    assert queue.pauses == sorted(queue.pauses)
    assert queue.pauses[0] == 1.0
    assert queue.pauses[-1] == LONGEST_PAUSE_S


def test_an_interrupt_says_that_the_job_continues_and_how_to_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = site(tmp_path, monkeypatch, [WAITS])

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    queue.sleep = interrupted  # type: ignore[method-assign]
    with pytest.raises(SystemExit) as caught:
        queue.wait()
    assert caught.value.code == 130
    assert queue.said == ["this command no longer waits for job 7, which continues: `scancel 7` ends it"]


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("Resources", "it waits for nodes that are free (Resources)"),
        ("PartitionConfig", "it asks for more nodes or time than the partition allows (PartitionConfig): see `sinfo`"),
        ("ReqNodeNotAvail, UnavailableNodes:c2", "nodes that it needs are down or reserved (ReqNodeNotAvail)"),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
         "nodes that it needs are down, drained or reserved: see `sinfo -R`"),
        ("JobHeldUser", "you hold it (JobHeldUser): scontrol release JOB"),
        ("BeginTime", "its start time is still to come, as after it was put back into the queue (BeginTime)"),
        ("SomethingNew", "Slurm says: SomethingNew"),
        ("ResourcesOfAnotherKind", "Slurm says: ResourcesOfAnotherKind"),
        ("None", "Slurm gives no reason yet"),
        ("", "Slurm gives no reason yet"),
    ],
)  # fmt: skip
def test_a_reason_of_squeue_becomes_a_sentence(reason: str, sentence: str) -> None:
    assert SLURM.why(reason).startswith(sentence)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("Invalid partition name specified", "there is no such partition: `sinfo` lists them; set --partition"),
        ("Invalid account or account/partition combination specified", "this account or partition is not yours"),
        ("Invalid qos specification", "this quality of service is not yours: set --qos"),
        ("Invalid feature specification", "no node has these features"),
        ("Node count specification invalid", "the partition does not have so many nodes for one job"),
        ("More processors requested than permitted", "the partition does not have so many nodes for one job"),
        ("Requested node configuration is not available", "no nodes like these are in the partition"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "the time limit is longer than the site"),
        ("User's group not permitted to use this partition", "your group may not use this partition: set --partition"),
        ("Required partition not available (inactive or drain)", "the partition is closed: `sinfo` shows"),
        ("Requested reservation is invalid", "there is no such reservation"),
    ],
)
def test_a_refusal_of_sbatch_becomes_a_sentence_with_its_words(words: str, sentence: str) -> None:
    said = SLURM.refused(["sbatch: a remark", f"sbatch: error: Batch job submission failed: {words}"])
    assert said.startswith(sentence)
    assert said.endswith(f"(Batch job submission failed: {words})")


def test_a_refusal_that_is_not_known_is_shown_as_it_is() -> None:
    assert SLURM.refused(["sbatch: error: the site's own rule"]) == "the site's own rule"
