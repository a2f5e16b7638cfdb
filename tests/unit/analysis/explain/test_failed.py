"""Launches that failed are explained by reasons, differences and counters, and no difference is called a cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import exports
from factory_explained import FAILING, Behaviour, plan_of, trials_of
from tare.analysis.explain.failed import FailedCell, failed_cells
from tare.analysis.explain.unmeasured_changes import reasons_of
from tare.analysis.summary.isolation import CAPABILITIES
from tare.cli.afterwards.explain_command import explain_results
from tare.cli.afterwards.options import ExplainOptions
from tare.model import Failed, Invalid, Outcome, Plan, Trial

ALL = "1ffffffffff"
FEW = format((1 << 41) - 1 & ~(1 << CAPABILITIES.index("sys_nice")), "x")
FORBIDDEN = "it ended with status 3: set_mempolicy: Operation not permitted"
PODS = {
    "bare": {"pod capabilities": ALL, "pod seccomp": "off", "pod open files": "1024"},
    "allows": {"pod capabilities": ALL, "pod seccomp": "filter", "pod open files": "1024"},
    "forbids": {"pod capabilities": FEW, "pod seccomp": "filter", "pod open files": "1024"},
}


def results_of(
    tmp_path: Path, outcomes: Mapping[str, Outcome], facts: Mapping[str, Mapping[str, str]] = PODS, **more: object
) -> tuple[Plan, list[Trial]]:
    """Return results in which all launches of some environments failed; `more` are fields of their trials."""
    plan = plan_of(tmp_path, FAILING)
    trials = trials_of(plan, {name: Behaviour(facts=own) for name, own in facts.items()})
    names = {cell.key: cell.environment.name for cell in plan.cells}
    return plan, [
        replace(trial, outcome=outcomes[name], **more)  # type: ignore[arg-type]
        if (name := names[trial.key.cell]) in outcomes and "A/A" not in trial.key.cell
        else trial
        for trial in trials
    ]


def only(tmp_path: Path, outcome: Outcome, **more: object) -> FailedCell:
    (cell,) = failed_cells(*results_of(tmp_path, {"forbids": outcome}, **more))  # type: ignore[arg-type]
    return cell


def test_what_failed_is_told_with_its_reason_and_what_no_environment_has_that_ran(tmp_path: Path) -> None:
    cell = only(tmp_path, Failed(reason=FORBIDDEN))
    assert (cell.environment, cell.failed, cell.launches) == ("forbids", 8, 8)
    assert [(reason.words, reason.launches) for reason in cell.reasons] == [(FORBIDDEN, 8)]
    assert cell.ran == ("bare", "allows")
    facts = {each.fact: each for each in cell.differences}
    assert facts["capabilities"].separates
    assert facts["capabilities"].value == "40, all but sys_nice"
    assert not facts["system call filter"].separates, "allows has it, too, and ran"
    assert "open files" not in facts
    assert cell.differences[0].fact == "capabilities"
    (perhaps,) = cell.perhaps
    assert "capabilities differ" in perhaps


def test_a_reason_that_no_difference_fits_suggests_nothing(tmp_path: Path) -> None:
    assert only(tmp_path, Failed(reason="it ended with status 1: no convergence")).perhaps == ()
    same = dict.fromkeys(PODS, PODS["bare"])
    assert only(tmp_path, Failed(reason=FORBIDDEN), facts=same).perhaps == ()


def test_reasons_that_differ_in_numbers_are_one_and_others_are_counted(tmp_path: Path) -> None:
    plan, trials = results_of(tmp_path, {"forbids": Failed(reason="x")})
    numbered = [
        replace(trial, outcome=Failed(reason=f"process {trial.key.round} was lost" if trial.key.round else "killed"))
        if isinstance(trial.outcome, Failed)
        else trial
        for trial in trials
    ]
    (cell,) = failed_cells(plan, numbered)
    assert [(reason.words, reason.launches) for reason in cell.reasons] == [("process 1 was lost", 7), ("killed", 1)]


def test_results_without_the_facts_say_so_and_invalid_launches_are_among_the_failed(tmp_path: Path) -> None:
    cell = only(tmp_path, Invalid(reason="the traffic took another path"), facts={})
    assert not cell.rights_recorded
    assert [each.fact for each in cell.differences] == ["runtime"]


@pytest.mark.parametrize("reason", ["it did not end within its time limit of 20 s", "it ended with status 1"])
def test_at_a_time_limit_counters_speak(tmp_path: Path, reason: str) -> None:
    counters = {"TcpRetransSegs": 12.0, "TcpInSegs": 100.0}
    cell = only(tmp_path, Failed(reason=reason), counters=counters, noise={"job_s": 0.4}, elapsed_s=20.0)
    if "time limit" not in reason:
        assert cell.at_limit == ()
        return
    assert cell.at_limit == (
        "its processes used 0.4 s of CPU in 20 s",
        "12 TCP segments sent again; in launches that ran 0 in the same time",
    )


def test_if_nothing_ran_nothing_is_compared(tmp_path: Path) -> None:
    every = dict.fromkeys(PODS, Failed(reason=FORBIDDEN))
    cells = failed_cells(*results_of(tmp_path, every))
    assert {cell.environment for cell in cells} == set(PODS)
    assert all(cell.ran == () and cell.differences == () for cell in cells)


def test_explain_prints_failed_cells_together_if_they_failed_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steering = Failed(reason=f"{FORBIDDEN} \x1b[2J")
    folder = exports.write(tmp_path / "results", *results_of(tmp_path, {"forbids": steering, "allows": steering}))
    assert explain_results(ExplainOptions(results=folder)) == 0
    out = capsys.readouterr().out
    assert "messages / 2n x 1r / forbids: failed\n  8 of 8 launches failed\n" in out
    assert "  differs from bare\n    capabilities: 40, all but sys_nice; bare: all\n" in out
    assert "perhaps: the program may need a right that it does not get here" in out
    assert "No cell that ran costs anything that could be explained." in out
    assert "\x1b" not in out
    explain_results(ExplainOptions(results=folder, cell="allows"))
    assert "forbids: failed" not in capsys.readouterr().out
    plan, trials = results_of(tmp_path, {"forbids": steering, "allows": steering}, facts={})
    explain_results(ExplainOptions(results=exports.write(tmp_path / "older", plan, trials)))
    out = capsys.readouterr().out
    assert "rights and limits of its pods are not recorded in these results" in out


def test_a_change_that_could_not_run_is_told_with_the_cell_that_failed(tmp_path: Path) -> None:
    plan, trials = results_of(tmp_path, {"forbids": Failed(reason=FORBIDDEN)})
    (gone,) = [cell.key for cell in plan.cells if cell.environment.name == "allows"]
    reasons = reasons_of(replace(plan, unavailable={gone: "podman is not installed"}), trials)
    (forbids,) = [cell.key for cell in plan.cells if cell.environment.name == "forbids"]
    assert reasons == {gone: "podman is not installed", forbids: f"8 of 8 launches failed: {FORBIDDEN}"}
