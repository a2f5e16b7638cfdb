"""The quick start on pods, whole: every network of a lab's Kubernetes, one pod a node and one a rank, nothing left."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Final

import pytest

from integration.live import Watch, cell_of, live, outcome, tare, trials
from integration.test_networks_flannel import CANNOT
from tare.networks import flannel
from tare.system.paths import run_folder

pytestmark = [
    *live("kubernetes", "cilium", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
    pytest.mark.long,
]
STUDY: Final = Path(__file__).parents[2] / "studies" / "kubernetes-networks.yaml"
LEVELS: Final = {"kubernetes", "vxlan", "host-gw", "routed", "cilium"}


@pytest.mark.parametrize("runtime_class", ["cilium-vxlan", "cilium-native"])
def test_the_quick_start_on_pods_runs_whole(tmp_path: Path, runtime_class: str) -> None:
    text = STUDY.read_text().replace("runtime_class: cilium-vxlan", f"runtime_class: {runtime_class}")
    text = text.replace("rounds: 12", "rounds: 1").replace("share: none}", "share: none, oversubscribe: true}")
    study = tmp_path / "quickstart.yaml"
    study.write_text(text)
    watch = Watch()
    result = tare("run", str(study), cwd=tmp_path)
    assert result.status in (0, 3), result.stdout + result.stderr
    found = trials(tmp_path / "results" / "quickstart")
    assert {outcome(each) for each in found} == {"Completed"}, [each["outcome"] for each in found]
    placements = {str(each["key"]["cell"]).split(" / ")[1] for each in found}
    assert len(placements) == 2
    for placement in placements:
        here = {cell_of(each) for each in found if f" / {placement} / " in each["key"]["cell"]}
        assert here >= LEVELS, placement
    page = " ".join(html.unescape((tmp_path / "results" / "quickstart" / "report.html").read_text()).split())
    assert "Kubernetes v1.31.4; nodes n0, n1; containerd://" in page
    assert watch.left(result.lab) == []
    assert list(Path("/tmp").glob(f"tare-{result.lab}*")) == []
    assert [note.name for note in run_folder().iterdir() if note.name.startswith(result.lab)] == []
