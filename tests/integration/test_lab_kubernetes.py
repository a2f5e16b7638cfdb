"""`tare lab up --kubernetes`: a Kubernetes for kubectl and studies, until its lab is taken down."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from integration.live import Watch, by_environment, live, outcome, tare, wait_for
from integration.test_networks_flannel import CANNOT
from tare.clusters.pods import api
from tare.networks import flannel

pytestmark = [
    *live("kubernetes", "flannel", "etcd", "cni", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]
RUN = Path("/run/tare")
STUDY = """
cluster: {kubernetes: {kubeconfig: KUBECONFIG}}
environments: [kubernetes, kubernetes+pod-network]
placements: [2x1]
repetition: {rounds: 1}
workloads: {messages: {kernels: [latency: {message_bytes: 8, iterations: 200}]}}
"""


def test_a_lab_has_a_kubernetes_that_measures_until_it_is_taken_down(tmp_path: Path) -> None:
    watch, name = Watch(), f"k{os.getpid()}"
    up = tare("lab", "up", "--kubernetes", "--name", name, cwd=tmp_path)
    try:
        assert up.status == 0, up.stderr
        watch.look(name)
        kubeconfig = RUN / f"{name}-stays" / "kubeconfig"
        assert f"export KUBECONFIG={kubeconfig}" in up.stdout
        assert "tare/debian-openmpi:" in up.stdout
        client = api.opened(str(kubeconfig))
        nodes = [each["metadata"]["name"] for each in client.ask("GET", "/api/v1/nodes")["items"]]
        client.close()
        assert nodes == ["n0", "n1"]
        study = tmp_path / "pods.yaml"
        study.write_text(STUDY.replace("KUBECONFIG", str(kubeconfig)))
        ran = tare("run", str(study), cwd=tmp_path)
        assert ran.status == 3, ran.stderr
        found = by_environment(tmp_path / "results" / "pods")
        assert {"kubernetes", "kubernetes+pod-network"} <= set(found)
        assert {outcome(trial) for its in found.values() for trial in its} == {"Completed"}, ran.stderr
    finally:
        down = tare("lab", "down", "--name", name, cwd=tmp_path)
    assert down.status == 0, down.stderr
    assert watch.left(name) == []


def test_a_kubernetes_whose_process_was_killed_is_told_and_goes_with_its_lab(tmp_path: Path) -> None:
    watch, name = Watch(), f"k{os.getpid()}"
    up = tare("lab", "up", "--kubernetes", "--name", name, cwd=tmp_path)
    try:
        assert up.status == 0, up.stderr
        watch.look(name)
        keeper = json.loads((RUN / f"{name}-stays" / "kubernetes.json").read_text())["pid"]
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{keeper}").exists(), "the end of the process that keeps it")
        told = tare("lab", "status", cwd=tmp_path)
        assert "kubernetes has ended" in told.stdout
    finally:
        down = tare("lab", "down", "--name", name, cwd=tmp_path)
    assert down.status == 0, down.stderr
    assert watch.left(name) == []


def test_a_kubernetes_that_a_lab_cannot_have_is_refused_before_the_lab_is_made(tmp_path: Path) -> None:
    name = f"k{os.getpid()}"
    refused = tare("lab", "up", "--kubernetes", "--subnets", "2", "--name", name, cwd=tmp_path)
    assert refused.status == 2
    assert "has its nodes in one subnet" in refused.stderr
    assert not (RUN / f"{name}-stays").exists()
