"""A cause that is planted on the lab is named, proven and removed: from the study to the report."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from integration.live import Watch, cell_of, compiled, live, outcome, said, tare, trials
from tare.cli.session import summary_of
from tare.model import Completed
from tare.store.writer import Store, read_only

pytestmark = live()
MESSAGES = "bw: {message_bytes: 1MiB, window: 8, iterations: 20, warmup: 2}"
FEW = "bw: {message_bytes: 1MiB, window: 2, iterations: 4, warmup: 1}"
ROUNDS = 6
"""The fewest from which a verdict follows."""


def study(folder: Path, link: str, kernel: str, repetition: str) -> Path:
    path = folder / "planted.yaml"
    path.write_text(
        "baseline: plain\nenvironments:\n  plain: {runtime: bare, network: bridge}\n"
        f"  planted: {{runtime: bare, network: bridge, link: {link}}}\n"
        f"workloads: {{messages: {{time_limit: 300s, kernels: [{{{kernel}}}]}}}}\nrepetition: {repetition}\n"
    )
    return path


def with_a_cost(measured: Path, folder: Path, of: str = "planted") -> None:
    """Store one round's launches as six rounds, with times of which it is certain that `of` costs something."""
    results = read_only(measured)
    repetition = replace(results.plan.study.repetition, rounds=ROUNDS, max_rounds=ROUNDS)
    plan = replace(results.plan, study=replace(results.plan.study, repetition=repetition))
    with Store.create_or_open(folder, plan, results.facts) as store:
        for number, trial in itertools.product(range(ROUNDS), results.trials):
            seconds = (2.0 if trial.key.cell.endswith(of) else 1.0) + number / 1000
            times = {"value": seconds, "median_s": seconds, "turn_mean_s": None, "turn_spread_s": None, "noise": {}}
            assert isinstance(trial.outcome, Completed)
            outcome = replace(trial.outcome, metrics=tuple(replace(each, **times) for each in trial.outcome.metrics))
            key = replace(trial.key, round=number)
            store.append(replace(trial, key=key, outcome=outcome, noise={}, samples_file=""))


@pytest.mark.smoke
def test_explain_runs_what_its_suspects_ask_for_stores_it_and_answers(tmp_path: Path) -> None:
    """The cost is written, not measured; which cause wins is not asked."""
    path = study(
        tmp_path, "{offloads: off, mtu: 1400}", FEW, "{rounds: 1, max_rounds: 1, turns: 2, reruns: 0}\na_a: false"
    )
    watch, folder = Watch(), tmp_path / "results"
    ran = tare("run", path, "-o", tmp_path / "measured", cwd=tmp_path)
    assert ran.status in (0, 3), ran.stderr
    with_a_cost(tmp_path / "measured", folder)
    told = tare("explain", folder, "--run", "--rounds", str(ROUNDS), "--json", cwd=tmp_path)
    assert told.status in (0, 3), told.stdout + told.stderr
    (extra,) = (folder / "explain").iterdir()
    environments = [each.name for each in read_only(extra).plan.study.environments]
    assert environments[:2] == ["plain", "planted"]
    assert "planted-without-offload" in environments
    assert {outcome(trial) for trial in trials(extra)} == {"Completed"}
    rounds = Counter(str(trial["key"]["cell"]).rpartition(" / ")[2] for trial in trials(extra))
    assert rounds == dict.fromkeys([*environments, "plain (A/A)"], ROUNDS)
    (cost,) = json.loads(told.stdout)["costs"]
    assert "offload" in [suspect["name"] for suspect in cost["suspects"]], cost
    assert "segmentation offload is off" in tare("explain", folder, cwd=tmp_path).stdout
    assert watch.left(ran.lab) + watch.left(told.lab) == []


@pytest.mark.requires("docker")
def test_the_users_own_program_is_measured_again_as_quick_started_it(tmp_path: Path) -> None:
    """It is named relative to its folder, needs a variable, and ends with 1 if it cannot write to that folder."""
    home, elsewhere, folder = tmp_path / "home", tmp_path / "elsewhere", tmp_path / "results"
    home.mkdir()
    elsewhere.mkdir()
    program = compiled("writes", home)
    options = ("--rounds", "1", "--environments", "bare,docker+bridge", "--writable", "--env", "GIVEN=x")
    ran = tare("quick", *options, "-o", tmp_path / "measured", "--", f"./{program.name}", cwd=home)
    assert ran.status in (0, 3), ran.stderr
    with_a_cost(tmp_path / "measured", folder, "docker+bridge")
    for written in home.glob("written-by-*"):
        written.unlink()
    told = tare("explain", folder, "--run", "--rounds", str(ROUNDS), cwd=elsewhere)
    assert told.status in (0, 3), told.stdout + told.stderr
    (extra,) = (folder / "explain").iterdir()
    assert {outcome(trial) for trial in trials(extra)} == {"Completed"}, said(trials(extra))
    assert any("docker+bridge-without" in cell_of(trial) for trial in trials(extra))
    assert (home / "written-by-0").read_text() == "x\n"
    assert not list(elsewhere.iterdir())


@pytest.mark.requires("docker")
def test_what_a_container_forbids_is_told_with_the_rights_that_differ(tmp_path: Path) -> None:
    program = compiled("forbidden", tmp_path)
    options = ("--rounds", "1", "--environments", "bare,docker+host", "-o", "results")
    ran = tare("quick", *options, "--", f"./{program.name}", cwd=tmp_path)
    assert ran.status == 4, ran.stdout + ran.stderr
    told = tare("explain", "results", cwd=tmp_path).stdout
    assert "docker+host: failed" in told
    assert "it ended with status 3: set_mempolicy: Operation not permitted" in told
    assert "differs from bare\n" in told
    assert "    system call filter: filter; bare: off\n" in told
    assert "perhaps: the program may need a right that it does not get here" in told


@pytest.mark.measures
@pytest.mark.requires("bpftrace")
def test_offloads_that_are_off_are_named_proven_and_in_the_report(tmp_path: Path) -> None:
    path = study(tmp_path, "{offloads: off}", MESSAGES, "{rounds: 6, turns: 10}")
    folder = tmp_path / "results"
    ran = tare("run", path, "-o", folder, cwd=tmp_path)
    assert ran.status in (0, 3), ran.stderr
    told = tare("explain", folder, "--run", "--rounds", "6", cwd=tmp_path)
    assert told.status == 0, told.stdout + told.stderr
    assert "segmentation offload is off (proven" in told.stdout
    (cause,) = summary_of(read_only(folder), folder).causes
    assert cause.name == "offload"
    assert cause.share is not None
    assert cause.share.low > 0.5
    remedied = tare("explain", folder, "--remedy", "--json", cwd=tmp_path)
    assert remedied.status == 0, remedied.stdout + remedied.stderr
    (remedy,) = json.loads(remedied.stdout)["remedies"]
    assert remedy["removed"] == ["offload"]
    (effect,) = remedy["effects"]
    assert effect["after"]["value"] < 0.5 * effect["before"]["value"]
    assert effect["outcome"] == "back at the baseline"
    traced = tare("explain", folder, "--trace", cwd=tmp_path)
    assert traced.status == 0, traced.stdout + traced.stderr
    assert "traced by bpftrace, per launch, and in the baseline (3 and 3 launches):" in traced.stdout
    assert "system calls of rank 0: " in traced.stdout
    assert "NET_RX " in traced.stdout
    assert "are no rank" not in traced.stdout
    report = tare("report", folder, "--html", tmp_path / "report.html", cwd=tmp_path)
    assert report.status in (0, 3)
    assert "segmentation offload is off" in (tmp_path / "report.html").read_text()
