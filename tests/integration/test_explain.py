"""A cause that is planted on the lab is named, proven and removed: from the study to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.live import Watch, live, outcome, tare, trials
from tare.cli.session import summary_of
from tare.store.writer import read_only

pytestmark = live()
MESSAGES = "bw: {message_bytes: 1MiB, window: 8, iterations: 20, warmup: 2}"
FEW = "latency: {message_bytes: 64KiB, iterations: 4, warmup: 1}"


def study(folder: Path, link: str, kernel: str, repetition: str) -> Path:
    path = folder / "planted.yaml"
    path.write_text(
        "baseline: plain\nenvironments:\n  plain: {runtime: bare, network: bridge}\n"
        f"  planted: {{runtime: bare, network: bridge, link: {link}}}\n"
        f"workloads: {{messages: {{time_limit: 300s, kernels: [{{{kernel}}}]}}}}\nrepetition: {repetition}\n"
    )
    return path


@pytest.mark.smoke
def test_explain_runs_what_its_suspects_ask_for_stores_it_and_answers(tmp_path: Path) -> None:
    """What is planted costs a thousand times the messages' time, which is certain; the cause that wins is not asked."""
    path = study(tmp_path, "{offloads: off, delay: 50ms}", FEW, "{rounds: 6, max_rounds: 6, turns: 2, reruns: 0}")
    folder, watch = tmp_path / "results", Watch()
    ran = tare("run", path, "-o", folder, cwd=tmp_path)
    assert ran.status in (0, 3), ran.stderr
    told = tare("explain", folder, "--run", "--rounds", "6", "--json", cwd=tmp_path)
    assert told.status in (0, 3), told.stdout + told.stderr
    (extra,) = (folder / "explain").iterdir()
    environments = [each.name for each in read_only(extra).plan.study.environments]
    assert environments[:2] == ["plain", "planted"]
    assert "planted-without-offload" in environments
    stored = trials(extra)
    assert [outcome(trial) for trial in stored] == ["Completed"] * 6 * len(environments)
    (cost,) = json.loads(told.stdout)["costs"]
    assert "offload" in [suspect["name"] for suspect in cost["suspects"]], cost
    assert "segmentation offload is off" in tare("explain", folder, cwd=tmp_path).stdout
    assert watch.left(ran.lab) + watch.left(told.lab) == []


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
