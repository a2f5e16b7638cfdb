"""`tare submit` writes a script of the study, or says in a sentence why it cannot."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tare.cli.commands import Where
from tare.cli.submit import START_S, Wanted, estimated_s, seconds, submit_study, system_of
from tare.errors import InfrastructureError, MissingTool, UsageError
from tare.model import SlurmSpec

STUDY = """
cluster: {slurm: {partition: short, account: physics}}
environments: [bare]
placements: [2x1, 4x1]
workloads: {micro: {kernels: [barrier]}}
"""


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wanted:
    """Return what a command line asks for; the folder `bin` is all of PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    return Wanted(
        study=tmp_path / "study.yaml",
        system="slurm",
        allocations=3,
        results=tmp_path / "kept",
        launcher="",
        site=SlurmSpec(),
        wait=False,
        told_s=300.0,
        dry_run=False,
    )


def program(folder: Path, name: str, script: str) -> None:
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / name).chmod(0o755)


def script_of(wanted: Wanted, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert submit_study(replace(wanted, dry_run=True)) == 0
    return capsys.readouterr().out.splitlines()


def test_a_batch_system_that_is_not_known_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="slurn") as caught:
        system_of("slurn")
    assert "slurm" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["soon", "-5min", "1:30:00", "5 parsecs"])
def test_a_time_that_is_none_names_its_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--time: "):
        seconds("--time", text)


def test_a_time_is_a_duration_and_none_is_left_to_the_estimate() -> None:
    assert seconds("--time", "90min") == 5400.0
    assert seconds("--time", "") == 0.0


def test_without_the_submitting_program_it_is_said_where_it_may_be(
    wanted: Wanted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(MissingTool, match="sbatch is not in PATH, so nothing can be submitted to slurm") as caught:
        submit_study(wanted)
    assert "login node" in caught.value.remedy
    assert caught.value.exit_code == 5
    assert not (tmp_path / "kept.job").exists()


def test_a_dry_run_needs_no_batch_system_and_writes_nothing(
    wanted: Wanted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = script_of(wanted, capsys)
    assert lines[0] == "#!/bin/sh"
    assert "#SBATCH --array=1-3%1" in lines
    assert "#SBATCH --nodes=4" in lines  # the most that a placement needs
    assert not (tmp_path / "kept.job").exists()


def test_each_allocation_does_one_of_as_many_rounds_as_there_are_allocations(
    wanted: Wanted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = [line for line in script_of(wanted, capsys) if "tare.cli.app" in line]
    assert f"run {tmp_path}/study.yaml --cluster slurm --results {tmp_path}/kept --rounds 3 --at-most 1" in command
    assert "--launcher" not in command
    (command,) = [line for line in script_of(replace(wanted, launcher="srun"), capsys) if "tare.cli.app" in line]
    assert "--launcher srun" in command


def test_what_the_command_line_asks_of_the_site_counts_before_the_study_file(
    wanted: Wanted, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = replace(wanted, site=SlurmSpec(partition="long", qos="high", time_s=7200.0))
    lines = script_of(asking, capsys)
    for option in ("--partition=long", "--account=physics", "--qos=high", "--time=02:00:00", "--signal=B:USR1@120"):
        assert f"#SBATCH {option}" in lines
    assert "#SBATCH --partition=short" in script_of(wanted, capsys)


def test_the_time_limit_has_room_for_a_round_that_takes_longer_than_estimated(wanted: Wanted) -> None:
    one = estimated_s(Where(cluster="slurm", rounds=1).load(wanted.study))
    many = estimated_s(Where(cluster="slurm", rounds=20).load(wanted.study))
    assert one > START_S
    assert many == pytest.approx(one, rel=0.05)  # an allocation does one round, however many there are


def test_a_job_that_was_submitted_is_named_with_its_folders(
    wanted: Wanted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, "sbatch", f'cp "$2" {tmp_path}/seen; echo "4711;cluster"')
    assert submit_study(wanted) == 0
    printed = capsys.readouterr().out
    assert "submitted study as job 4711: 3 allocations, one round each, at most " in printed
    assert f"results: {tmp_path}/kept   logs: {tmp_path}/kept.job" in printed
    script = tmp_path / "kept.job" / "job.sh"
    assert script.read_text() == (tmp_path / "seen").read_text()
    assert os.access(script, os.X_OK)


def test_a_refusal_is_told_as_slurm_means_it_and_where_the_script_is(wanted: Wanted, tmp_path: Path) -> None:
    program(
        tmp_path, "sbatch", "echo 'sbatch: error: Batch job submission failed: Invalid qos specification' >&2; exit 1"
    )
    with pytest.raises(UsageError, match="slurm refuses the job: this quality of service is not yours") as caught:
        submit_study(wanted)
    assert f"{tmp_path}/kept.job/job.sh" in caught.value.remedy
    assert caught.value.exit_code == 2


def test_a_submitting_program_that_prints_no_number_is_an_error(wanted: Wanted, tmp_path: Path) -> None:
    program(tmp_path, "sbatch", "true")
    with pytest.raises(InfrastructureError, match="sbatch printed no job number"):
        submit_study(wanted)


def test_a_job_that_left_no_results_points_to_its_logs(wanted: Wanted, tmp_path: Path) -> None:
    program(tmp_path, "sbatch", "echo 4711")
    program(tmp_path, "squeue", "true")
    with pytest.raises(InfrastructureError, match="the job left no results") as caught:
        submit_study(replace(wanted, wait=True))
    assert f"{tmp_path}/kept.job" in caught.value.remedy
