"""`tare explain` and `tare claims` print what results show as text or JSON, and refuse what cannot be judged."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import exports
from factory_explained import Behaviour, plan_of, summary_of, trials_of
from tare.analysis.explain import explain
from tare.analysis.explain.ablation import studies_of
from tare.cli import commands, session
from tare.cli.afterwards import explain_command
from tare.cli.afterwards.claims_command import show_claims
from tare.cli.afterwards.explain_command import explain_results
from tare.cli.afterwards.options import ClaimsOptions, ExplainOptions
from tare.cli.started_from import FACT, StartedIn, changed_programs
from tare.errors import EXIT_CELLS_FAILED, RefusedError, ResultsError, UsageError
from tare.model import Failed, Outcome, Plan, Trial
from tare.report import render_html
from tare.store.results import read_only
from tare.study.plan.cells import expand
from unit.report.export.test_json_document import TOOL, strict
from unit.scripts import script

EXPLAINED = TOOL["explain_schema"]()
SCHEMA = Path(__file__).parents[3] / "docs" / "explain.schema.json"
STEERING = "\x1b[2J\x1b]0;owned\x07"
STUDY = """
cluster: {cluster}
environments:
  plain: {{runtime: bare, network: {network}}}
  slow: {{runtime: bare, network: {network}, {slow}, env: {{A: 1}}}}
workloads: {{messages: {{kernels: [latency]}}}}
repetition: {{rounds: 8}}
"""
FILTER = "link: {br_netfilter: true, conntrack: track}"
SLOW = Behaviour(factor=1.3, facts={"conntrack": f"track {STEERING}", "br_netfilter": "on for br0"})
COLLECTIVE = "OMPI_MCA_coll_tuned_allreduce_algorithm"


def with_ablation(tmp_path: Path, outcome: Callable[[Trial], Outcome]) -> Path:
    """Return results of a study in the lab, with an ablation of its packet filter of which launches end like this."""
    plan = plan_of(tmp_path, STUDY.format(cluster="lab", network="bridge", slow=FILTER))
    trials = list(trials_of(plan, {"slow": SLOW}))
    folder = exports.write(tmp_path / "results", plan, trials)
    (ablation,) = studies_of(plan.study, explain(plan, trials, summary_of(plan, trials)))
    again = expand(ablation.study, lambda *_: None)
    measured = [replace(trial, outcome=outcome(trial)) for trial in trials_of(again, {"slow": SLOW}, seed=2)]
    (folder / "explain").mkdir()
    exports.write(folder / "explain" / ablation.folder, again, measured)
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return results with an ablation that proves the packet filter."""
    return with_ablation(tmp_path, lambda trial: trial.outcome)


def printed(wanted: ExplainOptions, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what is printed as JSON; it fits the published schema and steers no terminal."""
    explain_results(wanted)
    out = capsys.readouterr().out
    assert out.isascii()
    assert out.replace("\n", "").isprintable()
    document: dict[str, Any] = json.loads(out)
    jsonschema.Draft202012Validator(strict(EXPLAINED)).validate(document)
    return document


def test_costs_with_and_without_a_cause_fit_the_schema(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema.Draft202012Validator.check_schema(EXPLAINED)
    assert SCHEMA.read_text() == TOOL["schema_text"](EXPLAINED), "run tools/frames_page.py --write"
    document = printed(ExplainOptions(results=results, as_json=True), capsys)
    (cost,) = document["costs"]
    assert cost["cause"] == "packet filter"
    assert cost["suspects"][0]["share"]["low"] < 1.0 <= cost["suspects"][0]["share"]["high"]
    assert document["remedies"] is None


def test_a_remedy_that_the_ablation_has_measured_is_not_measured_again(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "measure", lambda study, folder, **_: pytest.fail(f"{study.name} in {folder}"))
    document = printed(ExplainOptions(results=results, remedy=True, as_json=True), capsys)
    (remedy,) = document["remedies"]
    assert remedy["removed"] == ["packet filter"]
    assert remedy["effects"][0]["outcome"] == "back at the baseline"
    explain_results(ExplainOptions(results=results, remedy=True))
    out = capsys.readouterr().out
    assert ": back at the baseline\n    already measured as an ablation, in" in out
    assert "\x1b" not in out
    assert "    slow-remedied:\n      runtime: bare\n" in out


def unexplained(tmp_path: Path, text: str, metric: str = "latency:8") -> Path:
    """Return results in which one environment costs half as much again, and no fact says why."""
    plan = plan_of(tmp_path, text)
    trials = trials_of(plan, {"slow": Behaviour(factor=1.5)}, metric=metric)
    return exports.write(tmp_path / "results", plan, list(trials))


def test_a_document_of_an_unexplained_cost_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = unexplained(tmp_path, STUDY.format(cluster="lab", network="bridge", slow="ssh_port: 0"))
    document = printed(ExplainOptions(results=folder, remedy=True, as_json=True), capsys)
    assert [cost["cause"] for cost in document["costs"]] == [None]
    assert document["remedies"] == []


@pytest.mark.parametrize(
    ("cluster", "command"), [("lab", "sudo tare explain"), ("slurm", "salloc --nodes=2 --exclusive tare explain")]
)
def test_the_command_that_measures_is_one_for_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cluster: str, command: str
) -> None:
    monkeypatch.setattr(explain_command, "is_real_root", lambda: False)
    folder = unexplained(tmp_path, STUDY.format(cluster=cluster, network="host", slow="launch: exec"))
    explain_results(ExplainOptions(results=folder))
    assert f"To measure the suspects: {command} {folder} --run" in capsys.readouterr().out


def test_outside_of_a_job_the_suspects_of_slurms_results_are_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    text = STUDY.format(cluster="slurm", network="host", slow="launch: exec").replace("A: 1", f"{COLLECTIVE}: 1")
    folder = unexplained(tmp_path, text, metric="allreduce:8")
    document = printed(ExplainOptions(results=folder, as_json=True), capsys)
    assert document["costs"][0]["cause"] == "collective"
    with pytest.raises(RefusedError, match="this is not a job of it") as caught:
        explain_results(ExplainOptions(results=folder, run=True))
    assert f"salloc --nodes=2 --exclusive tare explain {folder} --run" in str(caught.value)


OWN = """
environments:
  plain: {runtime: bare, network: bridge}
  slow: {runtime: docker, network: bridge}
workloads: {app: {command: [./app]}}
"""


class Stopped(Exception):
    """Raised in the place of the launches."""


def started_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record: StartedIn | None
) -> tuple[Path, dict[str, object]]:
    """Return the folder in which launches of results that have a record would start, and how pods are made ready."""
    here, seen = tmp_path / "here", {}
    here.mkdir()
    there = script(tmp_path / "there" / "app").parent
    plan = plan_of(there, OWN)
    folder = exports.write(tmp_path / "results", plan, [], {FACT: record} if record else {})

    def make_ready(plan: Plan, *_: object, **given: object) -> None:
        seen.update(given, here=Path.cwd())
        raise Stopped

    monkeypatch.setattr(session, "make_plan", lambda stated, _: expand(stated, lambda *_: None))
    monkeypatch.setattr(session, "make_ready", make_ready)
    monkeypatch.chdir(here)
    with pytest.raises((Stopped, RefusedError)):
        commands.measure(plan.study, Path("out"), of=read_only(folder))
    assert Path.cwd() == here
    return there, seen


def test_more_is_measured_where_the_study_was_started_with_what_its_pods_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    record = StartedIn(folder=str(there), shown=(str(there), "/data"), writable=str(there))
    there, seen = started_of(monkeypatch, tmp_path, record)
    assert seen["here"] == there
    assert seen["shown"] == (str(there), "/data")
    assert seen["cwd"] == str(there)
    carried = seen["carried"]
    assert callable(carried)
    with contextlib.chdir(there):
        assert carried() == {}
        assert Path.cwd() == tmp_path / "here", "the command that starts itself again finds its arguments"


def test_results_without_a_record_are_measured_in_the_folder_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, seen = started_of(monkeypatch, tmp_path, None)
    assert seen["here"] == tmp_path / "here"


def test_a_program_that_was_built_again_and_a_folder_that_is_gone_are_told(tmp_path: Path) -> None:
    before = {"identity": {"program ./app": "sha256:1", "kernel": "6"}}
    assert changed_programs(before, {"identity": {"program ./app": "sha256:2", "kernel": "7"}}) == ("./app",)
    assert changed_programs({}, {"identity": {"program ./app": "sha256:2"}}) == ()
    with (
        pytest.raises(RefusedError, match=r"was started in .*gone, which cannot be entered: No such file"),
        StartedIn(folder=str(tmp_path / "gone")).entered(),
    ):
        pass
    assert StartedIn.recorded({FACT: {"folder": 3}}) is None
    assert StartedIn.recorded({FACT: {"folder": "/a", "shown": "x"}}) == StartedIn(folder="/a")


LAUNCH_FAILED = f"it ended with status 127: no such file {STEERING}"


@pytest.fixture
def unmeasured(tmp_path: Path) -> Path:
    """Return results with an ablation whose changed cell failed in each launch."""
    failed = Failed(reason=LAUNCH_FAILED, status=127)
    return with_ablation(tmp_path, lambda trial: failed if "without" in trial.key.cell else trial.outcome)


def test_a_measurement_that_failed_is_told_beside_its_suspect(
    unmeasured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain_results(ExplainOptions(results=unmeasured)) == EXIT_CELLS_FAILED
    told = "could not be measured: slow-without-packet-filter: 8 of 8 launches failed: it ended with status 127"
    out = capsys.readouterr().out
    assert f"({told}" in out
    assert "\x1b" not in out
    suspect = printed(ExplainOptions(results=unmeasured, as_json=True), capsys)["costs"][0]["suspects"][0]
    assert suspect["unmeasured"].startswith(told.removeprefix("could not be measured: "))
    assert not suspect["proven"]
    results = read_only(unmeasured)
    page = render_html(session.summary_of(results, unmeasured), results.trials, results)
    assert "<small>could not be measured</small>" in page
    assert "8 of 8 launches failed: it ended with status 127" in page


CLAIMED = """
environments:
  plain: {runtime: bare, network: bridge}
  slow: {runtime: bare, network: bridge, env: {A: 1}}
workloads: {messages: {kernels: [latency]}}
repetition: {rounds: 8}
"""
CLAIMS = """
paper: "900"
title: "A paper | with a bar and \\u001b[2J"
source: a journal
claims:
  900-1: {place: "1", claim: it costs, kind: sign, here: "yes",
          test: {study: made-up, cost: {of: slow, against: plain, above: 5%}}}
  900-2: {place: "2", claim: it costs nothing, kind: sign, here: "yes",
          test: {study: made-up, cost: {of: slow, against: plain, within: 1%}}}
  900-3: {place: "3", claim: it is fast, kind: sign, here: no hardware, needs: an adapter}
"""


@pytest.fixture
def claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the results of a study, next to a folder of claims."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "900.yaml").write_text(CLAIMS)
    plan = plan_of(tmp_path, CLAIMED)
    return exports.write(tmp_path / "results", plan, list(trials_of(plan, {"slow": Behaviour(factor=1.2)})))


def test_verdicts_are_printed_as_text_markdown_and_json(claimed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_claims(ClaimsOptions(papers=["900"], on=[claimed])) == 0
    out = capsys.readouterr().out
    assert "900-1  reproduced" in out
    assert "900-2  contradicted" in out
    assert "here slow against plain: +20" in " ".join(out.split())
    assert "lab, 2n x 1r" in " ".join(out.split())
    assert "3 claims: 1 reproduced, 1 contradicted, 0 undecided, 1 untestable here." in out
    assert "\x1b[2J" not in out
    assert claimed.exists()
    assert show_claims(ClaimsOptions(as_json=True)) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["verdict"] for each in found] == ["undecided", "undecided", "untestable here"]
    show_claims(ClaimsOptions(papers=["claims/900.yaml"], on=[claimed], as_markdown=True))
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 900-")]
    assert len(rows) == 3
    assert all(row.count("|") - row.count("\\|") == 9 for row in rows)


def test_a_page_is_written_beside_the_text(claimed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "claims.html"
    assert show_claims(ClaimsOptions(papers=["900"], on=[claimed], html=page)) == 0
    assert f"page: {page}" in capsys.readouterr().out.replace("\n", "")
    assert page.read_text(encoding="utf-8").count('<svg class="bar claim"') == 2
    show_claims(ClaimsOptions(papers=["900"], on=[claimed], html=page, as_json=True))
    assert len(json.loads(capsys.readouterr().out)) == 3
    with pytest.raises(UsageError, match="the page cannot be written to"):
        show_claims(ClaimsOptions(papers=["900"], on=[claimed], html=tmp_path / "no" / "page.html"))


def test_what_cannot_be_judged_is_refused_with_what_to_do(claimed: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no claims of 'x'") as error:
        show_claims(ClaimsOptions(papers=["x"]))
    assert "900" in str(error.value.remedy)
    (tmp_path / "other.yaml").write_text(CLAIMS.replace("made-up", "another"))
    with pytest.raises(ResultsError, match="study made-up, which no claim"):
        show_claims(ClaimsOptions(papers=["other.yaml"], on=[claimed]))
    with pytest.raises(ResultsError, match="are both results of study made-up"):
        show_claims(ClaimsOptions(papers=["900"], on=[claimed, claimed]))
