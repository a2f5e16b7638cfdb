"""Batch scripts are as they were, and a job that is waited for says once why it does not begin."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import pytest

from factory_batch import JOB
from golden_texts import check_golden
from tare.cli.batch import SYSTEMS
from tare.cli.batch.job import clock
from tare.cli.batch.waiting import LONGEST_PAUSE_S, UNSEEN, Waiting
from tare.errors import InfrastructureError, RefusedError
from tare.model import SlurmSpec
from unit.scripts import script

ASKING = replace(
    JOB,
    allocations=1,
    time_s=59.0,
    asked=SlurmSpec(
        partition="short", account="physics", qos="high", constraint="rome&ib", reservation="maintenance",
        options=("--licenses=scratch",),
    ),
)  # fmt: skip
JOBS = {"plain": JOB, "asking": ASKING}


def test_the_scripts_of_batch_systems_are_as_they_were() -> None:
    texts = {f"{name}-{kind}": SYSTEMS[name].script(job) for name in SYSTEMS for kind, job in JOBS.items()}
    check_golden(Path(__file__).parents[3] / "golden" / "batch.txt", texts)


@pytest.mark.requires("shellcheck")
@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_shellcheck_finds_nothing_in_the_script(name: str, kind: str, tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text(SYSTEMS[name].script(JOBS[kind]))
    done = subprocess.run(("shellcheck", str(job)), capture_output=True, text=True, check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("name", SYSTEMS)
def test_options_are_before_the_first_command_where_batch_systems_read_them(name: str) -> None:
    lines = SYSTEMS[name].script(ASKING).splitlines()
    assert lines[0] == "#!/bin/sh"
    directives = [number for number, line in enumerate(lines) if line.split(" ")[0] in {"#SBATCH", "#PBS", "#BSUB"}
                  or line.startswith("# flux:")]  # fmt: skip
    assert directives == list(range(1, 1 + len(directives)))
    assert any("licenses" in lines[number] for number in directives)


@pytest.mark.parametrize(
    ("time_s", "text"), [(1.0, "00:01:00"), (60.0, "00:01:00"), (61.0, "00:02:00"), (90_000.0, "25:00:00")]
)
def test_a_time_limit_is_in_whole_minutes_that_suffice(time_s: float, text: str) -> None:
    assert clock(time_s) == text


@pytest.mark.parametrize(("time_s", "warning_s"), [(60.0, 15), (300.0, 75), (7200.0, 120)])
def test_a_job_is_told_before_its_end_and_never_for_most_of_its_time(time_s: float, warning_s: int) -> None:
    assert replace(JOB, time_s=time_s).warning_s == warning_s


@pytest.mark.parametrize(
    ("name", "printed", "number"),
    [
        ("slurm", "4711\n", "4711"),
        ("slurm", "4711;cluster2\n", "4711"),
        ("slurm", "sbatch: a remark of the site\n4711\n", "4711"),
        ("pbs", "1234[].server\n", "1234[].server"),
        ("lsf", "Job <907> is submitted to default queue <normal>.\n", "907"),
        ("lsf", "Nothing was said\n", ""),
        ("flux", "ƒA1bC2d\n", "ƒA1bC2d"),
        *((name, "", "") for name in SYSTEMS),
    ],
)
def test_the_number_of_a_job_is_read_from_what_submitting_it_printed(name: str, printed: str, number: str) -> None:
    assert SYSTEMS[name].number(printed) == number


def test_only_systems_whose_scripts_were_run_can_be_waited_for() -> None:
    tried = {name for name, system in SYSTEMS.items() if system.tried}
    for name, system in SYSTEMS.items():
        if name in tried:
            assert system.queue("7")
            assert system.cancel
        else:
            with pytest.raises(RefusedError, match=f"tare cannot wait for jobs of {name}") as caught:
                system.queue("7")
            assert "--wait" in caught.value.remedy
    assert tried


SLURM = SYSTEMS["slurm"]
GONE = "!slurm_load_jobs error: Invalid job id specified"
SILENT = "!slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
RUNS, WAITS = "RUNNING None", "PENDING Resources"


@dataclass(kw_only=True)
class Site:
    """A queue that answers one line after the other (`!` is an error), and a clock that only sleeping moves."""

    folder: Path
    answers: list[str] = field(default_factory=list)
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
        script(self.folder / "squeue", f"cat {self.folder}/answer" + " >&2; exit 1" * line.startswith("!"))

    def wait(self, *answers: str, told_s: float = 10.0) -> None:
        self.answers += answers
        self.answer()
        Waiting(
            system=SLURM, number="7", told_s=told_s, say=self.said.append, sleep=self.sleep, clock=lambda: self.now_s
        ).to_the_end()


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Site(folder=tmp_path)


@pytest.mark.parametrize("last", [GONE, ""])
def test_a_job_that_is_gone_has_ended(queue: Site, last: str) -> None:
    queue.wait(WAITS, RUNS, RUNS, "COMPLETING None", last, "never asked for")
    assert queue.answers == ["never asked for"]
    assert queue.said == []


def test_each_reason_is_said_once_after_the_stated_time(queue: Site) -> None:
    queue.wait(*[WAITS] * 9, *["PENDING Priority"] * 3, GONE, told_s=5.0)
    first, second = queue.said
    assert first.startswith("job 7 has been waiting for ")
    assert "it waits for nodes that are free (Resources). It stays in the queue" in first
    assert "Ctrl-C ends this command and not the job" in first
    assert "other jobs are before it (Priority)" in second


def test_nothing_is_said_of_a_job_that_begins_in_time_or_of_which_a_part_runs(queue: Site) -> None:
    mixed = f"{RUNS}\nPENDING JobArrayTaskLimit"
    queue.wait(WAITS, WAITS, *[mixed] * 30, WAITS, GONE, told_s=20.0)
    assert queue.said == []


def test_the_time_counts_from_when_nothing_of_the_job_ran(queue: Site) -> None:
    queue.wait(*[RUNS] * 20, *["PENDING BeginTime"] * 4, GONE, told_s=30.0)
    (said,) = queue.said
    assert 30 <= float(said.split(" s: ")[0].rsplit(" ", 1)[1]) < 30 + LONGEST_PAUSE_S


def test_a_controller_that_is_away_for_a_moment_does_not_end_the_waiting(queue: Site) -> None:
    queue.wait(RUNS, *[SILENT] * (UNSEEN - 1), RUNS, *[SILENT] * (UNSEEN - 1), GONE)
    assert queue.answers == []


def test_a_controller_that_stays_away_ends_the_waiting_with_its_words(queue: Site) -> None:
    with pytest.raises(InfrastructureError, match="slurm does not say what becomes of job 7") as caught:
        queue.wait(RUNS, *[SILENT] * UNSEEN, "never asked for")
    assert "Unable to contact slurm controller" in caught.value.message
    assert "tare report" in caught.value.remedy
    assert queue.answers == ["never asked for"]


def test_the_pauses_become_longer_and_have_a_limit(queue: Site) -> None:
    queue.wait(*[RUNS] * 40, GONE)
    assert queue.pauses == sorted(queue.pauses)
    assert queue.pauses[0] == 1.0
    assert queue.pauses[-1] == LONGEST_PAUSE_S


def test_an_interrupt_says_that_the_job_continues_and_how_to_end_it(queue: Site) -> None:
    queue.sleep = mock.Mock(side_effect=KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(SystemExit) as caught:
        queue.wait(WAITS)
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
