"""A cause that is planted on the lab is named, proven and removed: from the study to the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.live import live, tare
from tare.cli.session import summary_of
from tare.store.writer import read_only

pytestmark = [pytest.mark.timeout(600), *live(), pytest.mark.quiet]
STUDY = """
baseline: plain
environments:
  plain: {runtime: bare, network: bridge}
  planted: {runtime: bare, network: bridge, link: {br_netfilter: true, conntrack: track}}
workloads:
  messages: {kernels: [{latency: {message_bytes: 8, iterations: 1500, warmup: 100}}]}
repetition: {rounds: 8, turns: 10}
"""


def test_a_packet_filter_is_named_proven_and_gone_without_it(tmp_path: Path) -> None:
    (tmp_path / "planted.yaml").write_text(STUDY)
    folder = tmp_path / "results"
    ran = tare("run", tmp_path / "planted.yaml", "-o", folder, cwd=tmp_path, timeout_s=200)
    assert ran.status in (0, 3), ran.stderr
    told = tare("explain", folder, "--run", "--rounds", "8", cwd=tmp_path, timeout_s=300)
    assert told.status == 0, told.stdout + told.stderr
    assert "packet filter and connection tracking (proven" in told.stdout
    (cause,) = summary_of(read_only(folder), folder).causes
    assert cause.name == "packet filter"
    assert cause.proven
    assert cause.share is not None
    assert cause.share.low > 0.5
    report = tare("report", folder, "--html", tmp_path / "report.html", cwd=tmp_path)
    assert report.status in (0, 3)
    assert "packet filter and connection tracking" in (tmp_path / "report.html").read_text()
