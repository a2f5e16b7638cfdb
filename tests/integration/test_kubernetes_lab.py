"""A study whose lab starts a Kubernetes for it, from `tare run` to the page, and nothing of the cluster is left."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Final

import pytest

from integration.live import Watch, ended, live, outcome, start, trials, write_study
from integration.test_networks_flannel import CANNOT
from tare.host.paths import run_folder
from tare.networks import flannel

pytestmark = [
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

DAEMONS: Final = 9
"""etcd, API server, scheduler, controller manager, and a containerd and a kubelet on each node, flanneld aside."""


def test_a_lab_starts_a_kubernetes_for_a_study_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        "lab",
        "[kubernetes+pod-network]",
        a_a="true",
        cluster="{lab: {kubernetes: true}}",
        placements="[2x1]",
        workloads="{w: {time_limit: 60s, kernels: [{barrier: {iterations: 50, warmup: 5}}]}}",
        repetition="{rounds: 2, max_rounds: 2}",
    )
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    with watch.looking(f"s{process.pid}"):
        result = ended(process, 500)
    assert result.status in (0, 3), result.stdout + result.stderr
    assert [outcome(each) for each in trials(tmp_path / "results" / "lab")] == ["Completed"] * 4
    page = " ".join(html.unescape((tmp_path / "results" / "lab" / "report.html").read_text()).split())
    assert "Kubernetes v1.31.4; nodes n0, n1; containerd://" in page
    assert watch.most_processes > DAEMONS, "the cluster was not seen: the test proves nothing"
    assert watch.left(result.lab) == []
    assert list(Path("/tmp").glob(f"tare-{result.lab}*")) == []
    assert [note.name for note in run_folder().iterdir() if note.name.startswith(result.lab)] == []
