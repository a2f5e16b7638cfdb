"""The scripts of every batch system are as they were, and a shell reads them.

`TARE_UPDATE_GOLDEN=1 pytest tests/unit/batch` rewrites tests/golden/batch/; review the difference.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from factory_batch import JOB
from tare.batch import SYSTEMS
from tare.batch.job import clock
from tare.errors import RefusedError
from tare.model import SlurmSpec

GOLDEN = Path(__file__).parents[2] / "golden" / "batch"
UPDATE = os.environ.get("TARE_UPDATE_GOLDEN") == "1"
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


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_script_of_a_batch_system_is_as_it_was(name: str, kind: str) -> None:
    script = SYSTEMS[name].script(JOBS[kind])
    golden = GOLDEN / f"{name}-{kind}.sh"
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(script)
    assert script == golden.read_text()


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_shell_reads_the_script_without_an_error(name: str, kind: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(SYSTEMS[name].script(JOBS[kind]))
    assert subprocess.run(("sh", "-n", str(script)), capture_output=True, check=True).stderr == b""


@pytest.mark.requires("shellcheck")
@pytest.mark.parametrize("name", SYSTEMS)
def test_shellcheck_finds_nothing_in_the_script(name: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(SYSTEMS[name].script(JOB))
    done = subprocess.run(("shellcheck", str(script)), capture_output=True, text=True, check=False)
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
def test_the_number_of_a_job_is_read_from_what_the_submitting_program_printed(
    name: str, printed: str, number: str
) -> None:
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
