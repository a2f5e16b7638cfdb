"""A cause that is planted on the lab is named, proven and removed: from the study to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.live import live, tare
from tare.cli.session import summary_of
from tare.store.writer import read_only

pytestmark = [pytest.mark.timeout(600), *live("bpftrace"), pytest.mark.measures]
STUDY = """
baseline: plain
environments:
  plain: {runtime: bare, network: bridge}
  planted: {runtime: bare, network: bridge, link: {offloads: off}}
workloads:
  messages: {kernels: [{bw: {message_bytes: 1MiB, window: 8, iterations: 20, warmup: 2}}]}
repetition: {rounds: 6, turns: 10}
"""


def test_offloads_that_are_off_are_named_proven_and_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "planted.yaml").write_text(STUDY)
    folder = tmp_path / "results"
    ran = tare("run", tmp_path / "planted.yaml", "-o", folder, cwd=tmp_path, timeout_s=200)
    assert ran.status in (0, 3), ran.stderr
    told = tare("explain", folder, "--run", "--rounds", "6", cwd=tmp_path, timeout_s=300)
    assert told.status == 0, told.stdout + told.stderr
    assert "segmentation offload is off (proven" in told.stdout
    (cause,) = summary_of(read_only(folder), folder).causes
    assert cause.name == "offload"
    assert cause.share is not None
    assert cause.share.low > 0.5
    remedied = tare("explain", folder, "--remedy", "--json", cwd=tmp_path, timeout_s=300)
    assert remedied.status == 0, remedied.stdout + remedied.stderr
    (remedy,) = json.loads(remedied.stdout)["remedies"]
    assert remedy["removed"] == ["offload"]
    (effect,) = remedy["effects"]
    assert effect["after"]["value"] < 0.5 * effect["before"]["value"]
    assert effect["outcome"] == "back at the baseline"
    traced = tare("explain", folder, "--trace", cwd=tmp_path, timeout_s=300)
    assert traced.status == 0, traced.stdout + traced.stderr
    assert "traced by bpftrace, per launch, and in the baseline (3 and 3 launches):" in traced.stdout
    assert "system calls of rank 0: " in traced.stdout
    assert "NET_RX " in traced.stdout
    assert "are no rank" not in traced.stdout
    report = tare("report", folder, "--html", tmp_path / "report.html", cwd=tmp_path)
    assert report.status in (0, 3)
    assert "segmentation offload is off" in (tmp_path / "report.html").read_text()
