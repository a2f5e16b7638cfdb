"""Pod networks as levels of one study, in a lab's Kubernetes: each pod's packets take the network that its cell claims.

Nothing here trusts tare: the paths are read from what each node's interfaces carried, and from the pods' own MTU.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Final

import pytest

from integration.live import cell_of, live, outcome, tare, trials, write_study
from integration.test_networks_flannel import CANNOT
from tare.networks import flannel
from tare.system.paths import run_folder

pytestmark = [
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

BYTES: Final = 65536
MESSAGES: Final = 60
PAYLOAD: Final = BYTES * MESSAGES
KERNELS: Final = (
    f"{{micro: {{time_limit: 60s, kernels: [{{latency: {{message_bytes: {BYTES}, iterations: {MESSAGES}, "
    "warmup: 5}}, {barrier: {iterations: 20, warmup: 5}}]}}"
)
LEVELS: Final = (
    "{kubernetes: null, vxlan: {runtime: kubernetes, network: pod-network}, "
    "host-gw: {runtime: kubernetes, network: pod-network, runtime_class: host-gw}, "
    "routed: {runtime: kubernetes, network: pod-network, runtime_class: routed}}"
)
POD: Final = ("pod's interface", "eth0")
NIC: Final = ("node's NIC", "data0")
SILENT: Final = "must stay silent"
ROLES: Final = {
    "kubernetes": {("data NIC", "data0")},
    "vxlan": {POD, NIC, ("node's bridge", "cni0"), ("node's tunnel", "flannel.1"), (SILENT, "cni-host-gw")},
    "host-gw": {POD, NIC, ("node's bridge", "cni-host-gw"), (SILENT, "cni0"), (SILENT, "flannel.1")},
    "routed": {POD, NIC, (SILENT, "cni-host-gw"), (SILENT, "cni0"), (SILENT, "flannel.1")},
}
MTU: Final = {"kubernetes": "1500", "vxlan": "1450", "host-gw": "1500", "routed": "1500"}
NAMES: Final = ("pods", "host-gw", "routed")
LAB: Final = "{lab: {kubernetes: true}}"


def test_a_study_compares_pod_networks_and_the_traffic_proves_each(tmp_path: Path) -> None:
    study = write_study(
        tmp_path, "levels", LEVELS, cluster=LAB, placements="[2x1]", workloads=KERNELS,
        repetition="{rounds: 2, max_rounds: 2}",
    )  # fmt: skip
    result = tare("run", study, cwd=tmp_path)
    assert result.status in (0, 3), result.stdout + result.stderr
    found = trials(tmp_path / "results" / "levels")
    assert [outcome(each) for each in found] == ["Completed"] * 8, [each["outcome"] for each in found]
    for trial in found:
        cell = cell_of(trial)
        assert {(each["role"], each["interface"]) for each in trial["traffic"]} == ROLES[cell]
        for each in trial["traffic"]:
            carried = min(each["rx_bytes"], each["tx_bytes"])
            assert (carried < PAYLOAD / 20) if each["role"] == SILENT else (carried >= PAYLOAD), each
        assert trial["facts"]["mtu"] == MTU[cell]
        assert trial["facts"].get("runtime class", "") == (cell if cell in ("host-gw", "routed") else "")
    report = " ".join(html.unescape((tmp_path / "results" / "levels" / "report.html").read_text()).split())
    assert "pods' network: Flannel (VXLAN" in report
    assert "eth0 MTU 1450, over data0 MTU 1500, through flannel.1 (vxlan)" in report
    assert "with runtime class host-gw: Flannel (host-gw: plain routes between nodes" in report
    assert "with runtime class routed: routed (Calico's data path without Calico" in report
    assert list(Path("/tmp").glob(f"tare-{result.lab}*")) == []
    assert [note for note in run_folder().iterdir() if note.name.startswith(result.lab)] == []
    assert left_by_cni() == [], "not even while a lab is up"


SHARED: Final = "{nodes: 2, ranks_per_node: 2, containers_per_node: 2, share: none, oversubscribe: true}"


def test_a_pod_a_rank_is_in_the_network_that_its_runtime_class_chooses(tmp_path: Path) -> None:
    levels = LEVELS.replace("kubernetes: null, ", "")
    study = write_study(
        tmp_path, "each", levels, cluster=LAB, placements=f"[{SHARED}]",
        workloads="{w: {kernels: [{barrier: {iterations: 20, warmup: 5}}]}}",
    )  # fmt: skip
    result = tare("run", study, cwd=tmp_path)
    found = trials(tmp_path / "results" / "each")
    assert [outcome(each) for each in found] == ["Completed"] * 3, ([each["outcome"] for each in found], result.stderr)
    for trial in found:
        cell = cell_of(trial)
        assert len({rank["namespaces"]["net"] for rank in trial["ranks"]}) == 4
        own = [each for each in trial["traffic"] if (each["role"], each["interface"]) == POD]
        assert [each["node"] for each in own] == ["n0c0", "n0c1", "n1c0", "n1c1"]
        assert all(each["tx_bytes"] > 1000 for each in own)
        silent = {place for place in ROLES[cell] if place[0] == SILENT}
        assert {(each["role"], each["interface"]) for each in trial["traffic"]} == {POD, *silent}
        assert trial["facts"]["mtu"] == MTU[cell]


def test_a_runtime_class_that_is_not_there_is_refused(tmp_path: Path) -> None:
    absent = "{kubernetes: null, other: {runtime: kubernetes, network: pod-network, runtime_class: gvisor}}"
    study = write_study(tmp_path, "absent", absent, cluster=LAB, placements="[2x1]")
    result = tare("plan", study, cwd=tmp_path)
    told = " ".join((result.stdout + result.stderr).split())
    assert "a Kubernetes in a lab has no runtime class gvisor: it has host-gw, routed, cilium-" in told


def left_by_cni() -> list[Path]:
    """Return what CNI keeps on this machine of pods of the networks of labs."""
    folders = [Path("/var/lib/cni/networks") / name for name in NAMES]
    results = [each for name in NAMES for each in Path("/var/lib/cni/results").glob(f"{name}-*")]
    return [each for each in (*folders, *results) if each.exists()]
