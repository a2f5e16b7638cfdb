"""Cilium in a lab's Kubernetes: the real agent carries a study's messages, as the nodes' interfaces prove.

Nothing here trusts tare: the paths are read from what each node's interfaces carried.
"""

from __future__ import annotations

import html
import subprocess
from pathlib import Path
from typing import Final

import pytest

from integration.live import cell_of, live, outcome, said, tare, trials, wait_for, write_study
from integration.test_kubernetes_networks import KERNELS, LAB, NIC, PAYLOAD, POD, SHARED, SILENT
from integration.test_networks_flannel import CANNOT
from tare.networks import flannel

pytestmark = [
    *live("kubernetes", "cilium", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]
FLANNEL: Final = {(SILENT, "cni0"), (SILENT, "flannel.1")}
OF_MACHINE: Final = ("kernel/unprivileged_bpf_disabled", "kernel/timer_migration", "net/core/bpf_jit_enable")
TUNNEL: Final = ("node's tunnel", "cilium_vxlan")
VXLAN: Final = {POD, NIC, ("node's bridge", "cni0"), ("node's tunnel", "flannel.1")}
ROLES: Final = {"cilium-vxlan": {POD, NIC, TUNNEL, *FLANNEL}, "cilium-native": {POD, NIC, *FLANNEL}}
MTU: Final = {"kubernetes": "1500", "vxlan": "1450", "cilium": "1500"}


def levels(runtime_class: str) -> str:
    named = f"cilium: {{runtime: kubernetes, network: pod-network, runtime_class: {runtime_class}}}"
    return f"{{kubernetes: null, vxlan: {{runtime: kubernetes, network: pod-network}}, {named}}}"


def sysctls() -> dict[str, str]:
    files = [Path("/proc/sys") / name for name in OF_MACHINE]
    return {str(file): file.read_text() for file in files if file.exists()}


def programs() -> list[str]:
    """Return the eBPF programs of Cilium that are loaded on this machine."""
    listed = subprocess.run(["bpftool", "prog", "list"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "name cil_" in line or "name tail_" in line]


@pytest.mark.parametrize("runtime_class", ["cilium-vxlan", pytest.param("cilium-native", marks=pytest.mark.long)])
def test_a_study_measures_cilium_beside_the_nodes_and_flannel(tmp_path: Path, runtime_class: str) -> None:
    before = sysctls()
    study = write_study(
        tmp_path, "level", levels(runtime_class), cluster=LAB, placements="[2x1]", workloads=KERNELS,
        repetition="{rounds: 1}",
    )  # fmt: skip
    result = tare("run", study, cwd=tmp_path)
    found = [each for each in trials(tmp_path / "results" / "level") if "A/A" not in cell_of(each)]
    assert result.status in (0, 3), "\n".join((result.stdout, result.stderr, *said(found)))
    assert {outcome(each) for each in found} == {"Completed"}, said(found)
    assert {cell_of(each) for each in found} == set(MTU)
    silent = {(SILENT, "cilium_vxlan")} if runtime_class == "cilium-vxlan" else set()
    for trial in found:
        cell = cell_of(trial)
        if cell != "kubernetes":
            wanted = ROLES[runtime_class] if cell == "cilium" else VXLAN | silent
            assert {(each["role"], each["interface"]) for each in trial["traffic"]} == wanted
        for each in trial["traffic"]:
            carried = min(each["rx_bytes"], each["tx_bytes"])
            assert (carried < PAYLOAD / 20) if each["role"] == SILENT else (carried >= PAYLOAD), each
        assert trial["facts"]["mtu"] == MTU[cell]
    report = " ".join(html.unescape((tmp_path / "results" / "level" / "report.html").read_text()).split())
    assert f"with runtime class {runtime_class}: Cilium (" in report
    wait_for(lambda: not programs(), "the end of its eBPF programs, and of those of labs beside this one")
    assert sysctls() == before, "the machine's own settings are as they were"


@pytest.mark.long
def test_a_pod_a_rank_is_cilium_s(tmp_path: Path) -> None:
    study = write_study(
        tmp_path, "each", levels("cilium-vxlan").replace("kubernetes: null, ", ""), cluster=LAB,
        placements=f"[{SHARED}]", workloads="{w: {kernels: [{barrier: {iterations: 20, warmup: 5}}]}}",
    )  # fmt: skip
    result = tare("run", study, cwd=tmp_path)
    found = [each for each in trials(tmp_path / "results" / "each") if cell_of(each) == "cilium"]
    assert [outcome(each) for each in found] == ["Completed"], result.stderr
    (trial,) = found
    assert len({rank["namespaces"]["net"] for rank in trial["ranks"]}) == 4
    own = [each for each in trial["traffic"] if (each["role"], each["interface"]) == POD]
    assert [each["node"] for each in own] == ["n0c0", "n0c1", "n1c0", "n1c1"]
    assert all(each["tx_bytes"] > 1000 for each in own)


def test_of_its_two_modes_one_study_measures_the_first(tmp_path: Path) -> None:
    both = levels("cilium-vxlan")[:-1] + levels("cilium-native").replace("cilium: ", "native: ").partition("}")[2]
    result = tare("plan", write_study(tmp_path, "both", both, cluster=LAB, placements="[2x1]"), cwd=tmp_path)
    said = " ".join(result.stdout.split())
    assert "4 cells, 3 can run here" in said
    assert "native (unavailable: a lab has one of cilium-vxlan and cilium-native: compare each" in said, said
