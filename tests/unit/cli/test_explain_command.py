"""`tare explain` prints what is known as text or JSON, and measures changed cells where the study ran."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import exports
from factory_explained import Behaviour, plan_of, summary_of, trials_of
from tare.cli import commands
from tare.cli.afterwards import explain_command
from tare.cli.afterwards.explain_command import Wanted, explain_results
from tare.errors import RefusedError
from tare.explain import explain
from tare.explain.ablation import studies_of
from tare.export.schema import explain_schema, schema_text
from tare.model import Study
from tare.plan.cells import expand
from unit.export.test_json_document import strict

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
Build = Callable[..., Path]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return results of a study in the lab, with an ablation that proves the packet filter."""
    plan = plan_of(tmp_path, STUDY.format(cluster="lab", network="bridge", slow=FILTER))
    trials = list(trials_of(plan, {"slow": SLOW}))
    folder = exports.write(tmp_path / "results", plan, trials)
    (ablation,) = studies_of(plan.study, explain(plan, trials, summary_of(plan, trials)))
    again = expand(ablation.study, lambda *_: None)
    (folder / "explain").mkdir()
    exports.write(folder / "explain" / ablation.folder, again, list(trials_of(again, {"slow": SLOW}, seed=2)))
    return folder


def printed(wanted: Wanted, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what is printed as JSON; it fits the published schema and steers no terminal."""
    explain_results(wanted)
    out = capsys.readouterr().out
    assert out.isascii()
    assert out.replace("\n", "").isprintable()
    document: dict[str, Any] = json.loads(out)
    jsonschema.Draft202012Validator(strict(explain_schema())).validate(document)
    return document


def test_the_published_schema_is_what_the_code_makes() -> None:
    jsonschema.Draft202012Validator.check_schema(explain_schema())
    assert SCHEMA.read_text() == schema_text(explain_schema()), "run tools/frames_page.py --write"


def test_a_document_names_cause_share_and_remedy(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = printed(Wanted(folder=results, as_json=True), capsys)
    (cost,) = document["costs"]
    assert cost["cause"] == "packet filter"
    assert cost["suspects"][0]["share"]["low"] < 1.0 < cost["suspects"][0]["share"]["high"]
    assert document["remedies"] is None


def test_a_remedy_that_the_ablation_has_measured_is_not_measured_again(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(study: Study, folder: Path) -> None:
        raise AssertionError(f"{study.name} is measured in {folder}")

    monkeypatch.setattr(commands, "measure", measure)
    document = printed(Wanted(folder=results, remedy=True, as_json=True), capsys)
    (remedy,) = document["remedies"]
    assert remedy["removed"] == ["packet filter"]
    assert remedy["effects"][0]["outcome"] == "back at the baseline"
    explain_results(Wanted(folder=results, remedy=True))
    out = capsys.readouterr().out
    assert ": back at the baseline\n    already measured as an ablation, in" in out
    assert "\x1b" not in out
    assert "    slow-remedied:\n      runtime: bare\n" in out


def test_a_document_of_an_unexplained_cost_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(tmp_path, STUDY.format(cluster="lab", network="bridge", slow="ssh_port: 0"))
    folder = exports.write(tmp_path / "results", plan, list(trials_of(plan, {"slow": Behaviour(factor=1.5)})))
    document = printed(Wanted(folder=folder, remedy=True, as_json=True), capsys)
    assert [cost["cause"] for cost in document["costs"]] == [None]
    assert document["remedies"] == []


@pytest.mark.parametrize(
    ("cluster", "command"), [("lab", "sudo tare explain"), ("slurm", "salloc --nodes=2 --exclusive tare explain")]
)
def test_the_command_that_measures_is_one_for_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cluster: str, command: str
) -> None:
    monkeypatch.setattr(explain_command, "is_real_root", lambda: False)
    plan = plan_of(tmp_path, STUDY.format(cluster=cluster, network="host", slow="launch: exec"))
    folder = exports.write(tmp_path / "results", plan, list(trials_of(plan, {"slow": Behaviour(factor=1.5)})))
    explain_results(Wanted(folder=folder))
    assert f"To measure the suspects: {command} {folder} --run" in capsys.readouterr().out


def test_outside_of_a_job_the_suspects_of_slurms_results_are_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    chosen = "launch: exec"
    plan = plan_of(
        tmp_path, STUDY.format(cluster="slurm", network="host", slow=chosen).replace("A: 1", f"{COLLECTIVE}: 1")
    )
    trials = list(trials_of(plan, {"slow": Behaviour(factor=1.5)}, metric="allreduce:8"))
    folder = exports.write(tmp_path / "results", plan, trials)
    document = printed(Wanted(folder=folder, as_json=True), capsys)
    assert document["costs"][0]["cause"] == "collective"
    with pytest.raises(RefusedError, match="this is not a job of it") as caught:
        explain_results(Wanted(folder=folder, run=True))
    assert f"salloc --nodes=2 --exclusive tare explain {folder} --run" in str(caught.value)


COLLECTIVE = "OMPI_MCA_coll_tuned_allreduce_algorithm"
