"""`tare submit` writes a job's script; `tare compare` and `tare history` print tables, JSON and pages."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import factory_across as folders
from tare.cli.afterwards.across_commands import show_compare, show_history
from tare.cli.afterwards.options import CompareOptions, HistoryOptions
from tare.cli.commands import Where
from tare.cli.options import SubmitOptions
from tare.cli.submit import START_S, estimated_s, seconds, submit_study, system_of
from tare.errors import InfrastructureError, MissingTool, RefusedError, UsageError
from unit.scripts import script

STUDY = """
cluster: {slurm: {partition: short, account: physics}}
environments: [bare]
placements: [2x1, 4x1]
workloads: {micro: {kernels: [barrier]}}
"""


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SubmitOptions:
    """Return what a command line asks for; the folder `bin` is all of PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    return SubmitOptions(
        study=tmp_path / "study.yaml", system="slurm", allocations=3, results=tmp_path / "kept",
    )  # fmt: skip


def script_of(wanted: SubmitOptions, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert submit_study(replace(wanted, dry_run=True)) == 0
    return capsys.readouterr().out.splitlines()


def test_a_batch_system_that_is_not_known_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="slurn") as caught:
        system_of("slurn")
    assert "slurm" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["soon", "-5min", "1:30:00", "5 parsecs"])
def test_a_time_is_a_duration_and_another_names_its_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--time: "):
        seconds("--time", text)
    assert seconds("--time", "90min") == 5400.0
    assert seconds("--time", "") == 0.0


def test_without_the_submitting_program_it_is_said_where_it_may_be(
    wanted: SubmitOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(MissingTool, match="sbatch is not in PATH, so nothing can be submitted to slurm") as caught:
        submit_study(wanted)
    assert "login node" in caught.value.remedy
    assert caught.value.exit_code == 5
    assert not (tmp_path / "kept.job").exists()


def test_a_dry_run_writes_nothing_and_each_allocation_does_one_of_as_many_rounds_as_there_are(
    wanted: SubmitOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = script_of(wanted, capsys)
    assert lines[0] == "#!/bin/sh"
    assert "#SBATCH --array=1-3%1" in lines
    assert "#SBATCH --nodes=4" in lines  # the most that a placement needs
    assert not (tmp_path / "kept.job").exists()
    (command,) = [line for line in lines if "tare.cli.app" in line]
    assert f"run {tmp_path}/study.yaml --cluster slurm --results {tmp_path}/kept --rounds 3 --at-most 1" in command
    assert "--launcher" not in command
    (command,) = [line for line in script_of(replace(wanted, launcher="srun"), capsys) if "tare.cli.app" in line]
    assert "--launcher srun" in command


def test_options_of_the_site_count_before_the_study_file(
    wanted: SubmitOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = replace(wanted, partition="long", qos="high", time="2h")
    lines = script_of(asking, capsys)
    for option in ("--partition=long", "--account=physics", "--qos=high", "--time=02:00:00", "--signal=B:USR1@120"):
        assert f"#SBATCH {option}" in lines
    assert "#SBATCH --partition=short" in script_of(wanted, capsys)


def test_the_time_limit_has_room_for_a_round_that_takes_longer_than_estimated(wanted: SubmitOptions) -> None:
    one = estimated_s(Where(cluster="slurm").load(wanted.study, 1))
    many = estimated_s(Where(cluster="slurm").load(wanted.study, 20))
    assert one > START_S
    assert many == pytest.approx(one, rel=0.05)  # an allocation does one round, however many there are


def test_a_submitted_job_is_named_with_folders(
    wanted: SubmitOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "bin/sbatch", f'cp "$2" {tmp_path}/seen; echo "4711;cluster"')
    assert submit_study(wanted) == 0
    printed = capsys.readouterr().out
    assert "submitted study as job 4711: 3 allocations, one round each, at most " in printed
    assert f"results: {tmp_path}/kept   logs: {tmp_path}/kept.job" in printed
    submitted = tmp_path / "kept.job" / "job.sh"
    assert submitted.read_text() == (tmp_path / "seen").read_text()
    assert os.access(submitted, os.X_OK)


def test_a_planted_script_is_replaced_and_root_submits_from_no_folder_that_others_change(
    wanted: SubmitOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "bin/sbatch", "echo 4711")
    (tmp_path / "kept.job").mkdir()
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "kept.job" / "job.sh").symlink_to(tmp_path / "victim")
    assert submit_study(wanted) == 0
    assert (tmp_path / "victim").read_text() == "mine"
    monkeypatch.setattr("tare.system.safe_files.is_real_root", lambda: True)
    (tmp_path / "kept.job").chmod(0o777)
    with pytest.raises(UsageError, match="can be changed by another user, so root's job must not be in it"):
        submit_study(wanted)


def test_a_refusal_is_told_as_slurm_means_it_and_where_the_script_is(wanted: SubmitOptions, tmp_path: Path) -> None:
    words = "sbatch: error: Batch job submission failed: Invalid qos specification"
    script(tmp_path / "bin/sbatch", f"echo '{words}' >&2; exit 1")
    with pytest.raises(UsageError, match="slurm refuses the job: this quality of service is not yours") as caught:
        submit_study(wanted)
    assert f"{tmp_path}/kept.job/job.sh" in caught.value.remedy
    assert caught.value.exit_code == 2


def test_a_job_without_a_number_or_results_is_an_error(wanted: SubmitOptions, tmp_path: Path) -> None:
    script(tmp_path / "bin/sbatch", "true")
    with pytest.raises(InfrastructureError, match="sbatch printed no job number"):
        submit_study(wanted)
    script(tmp_path / "bin/sbatch", "echo 4711")
    script(tmp_path / "bin/squeue", "true")
    with pytest.raises(InfrastructureError, match="the job left no results") as caught:
        submit_study(replace(wanted, wait=True))
    assert f"{tmp_path}/kept.job" in caught.value.remedy


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    top = tmp_path_factory.mktemp("pair")
    facts = folders.changed("identity", "kernel", value="6.2.0")
    return (
        folders.write(top / "a", factors={"docker": 1.2}),
        folders.write(top / "b", factors={"docker": 1.5}, facts=facts, seed=2, began=1.7901e9),
    )


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("nights")
    for number in range(8):
        machine = 1.4 if number > 4 else 1.0
        folders.write(top / str(number), machine=machine, began=1.79e9 + 1e5 * number, seed=number, rounds=6)
    return top


@pytest.fixture(autouse=True)
def _eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


class Checker(HTMLParser):
    """Refuse scripts, what shows something else, and inline styles."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "iframe", "object", "img"}
        assert not [name for name, _ in attrs if name == "style" or name.startswith("on")]


def check_page(path: Path) -> str:
    """Check that a page has neither scripts nor inline styles nor addresses, and return it."""
    text = path.read_text(encoding="utf-8")
    Checker().feed(text)
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text
    return text


def test_what_differs_must_be_declared_and_a_page_be_written(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"kernel: kernel: A 6\.1\.0-1, B 6\.2\.0"):
        show_compare(CompareOptions(results=pair))
    with pytest.raises(UsageError, match="cannot be written"):
        show_compare(CompareOptions(results=pair, expect=["all"], html=tmp_path / "no" / "page.html"))


def test_a_comparison_is_printed_in_eighty_columns_and_in_ascii(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert show_compare(CompareOptions(results=pair, expect=["kernel"])) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert re.search(r"latency 8 B +▲ 1\.2\d \[1\.\d\d, 1\.\d\d\] 12\.\d µs +▲ 1\.2\d \[.* \+\d\d %", said)
    joined = " ".join(said.split())
    assert "docker in micro / 2n x 1r: latency 8 B, bw 1 MiB: could be kernel: network stack" in joined
    assert "not other days on the same machines" in joined
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", out)
    show_compare(CompareOptions(results=pair, expect=["all"]))
    out.flush()
    assert b"^ 1.2" in out.buffer.getvalue()  # type: ignore[attr-defined]


def test_a_comparison_is_json_and_a_page_with_each_ratio_and_difference(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_compare(CompareOptions(results=pair, expect=["all"], as_json=True, html=tmp_path / "page.html"))
    data = json.loads(capsys.readouterr().out)
    assert [result["label"] for result in data["results"]] == ["A", "B"]
    assert data["differences"][0]["values"] == {"A": "6.1.0-1", "B": "6.2.0"}
    show_compare(CompareOptions(results=pair, expect=["all"], html=tmp_path / "page.html"))
    text = check_page(tmp_path / "page.html")
    for expected in ("latency 8 B", "bw 1 MiB", "6.2.0", "slower", "n = 10 and 10", "could be kernel"):
        assert expected in text
    assert text.count('<svg class="bar"') == 2 + 4 + 2


@pytest.mark.parametrize("count", [1, 27])
def test_other_numbers_of_folders_are_refused(pair: tuple[Path, Path], count: int) -> None:
    with pytest.raises(UsageError, match=f"not {count}"):
        show_compare(CompareOptions(results=[pair[0]] * count))


def test_a_history_is_printed_in_eighty_columns_and_a_page_with_a_plot(
    nights: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert show(nights, ["bare / latency"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    joined = " ".join(said.split())
    assert re.search(r"▁▁\|██|▁\|█", joined)
    assert re.search(
        r"▲ slower by \+(39|40)[.\d]* % \[.*, p < 0.001\) since 5 \(2026-09-27 09:06 UTC\), the last 3", joined
    )
    assert "false alarm in this series is 5 %" in joined
    show(nights, ["bare / latency"], html=tmp_path / "page.html")
    text = check_page(tmp_path / "page.html")
    assert text.count('<title id="series-') == 1
    assert text.count(", n = 6</title></path>") == 8  # a point for each result
    assert len(re.findall(r">slower by \+\d+ %</text>", text)) == 1


@pytest.mark.parametrize(("fail", "within", "code"), [(False, 10, 0), (True, 10, 1), (True, 3, 1), (True, 2, 0)])
def test_the_exit_code_says_that_the_newest_results_are_slower(
    nights: Path, fail: bool, within: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(nights, [], fail=fail, within=within) == code


def show(folder: Path, cells: list[str], *, fail: bool = False, within: int = 10, html: Path | None = None) -> int:
    return show_history(HistoryOptions(folder=folder, cell=cells, fail_on_change=fail, within=within, html=html))


def test_hostile_names_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = folders.changed("identity", "kernel", value=HOSTILE)
    paths = [
        folders.write(tmp_path / str(n), text=HOSTILE, facts=facts if n else folders.FACTS, seed=n, machine=1.0 + n)
        for n in range(2)
    ]
    show_compare(CompareOptions(results=paths, expect=["all"], html=tmp_path / "c.html"))
    show(tmp_path, [], html=tmp_path / "h.html")
    said = capsys.readouterr().out
    assert "\x1b[31m" not in said
    assert "\u202e" not in said
    for name in ("c.html", "h.html"):
        text = check_page(tmp_path / name)
        assert "&lt;script&gt;alert(1)" in text
        assert "\x1b" not in text
    with pytest.raises(RefusedError) as refused:
        show_compare(CompareOptions(results=paths))
    assert "\x1b" not in str(refused.value)
