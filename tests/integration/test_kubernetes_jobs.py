"""Studies whose jobs are MPIJobs, on a lab's Kubernetes with the real MPI Operator: from `tare run` to the report."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from integration.live import cell_of, lab_site, live, outcome, tare, trials, write_study
from integration.test_networks_flannel import CANNOT
from kubernetes_rights import SELECTOR
from tare.clusters.pods import in_lab
from tare.daemons import coredns, mpi_operator
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file
from tare.images.recipe import service
from tare.networks import flannel
from tare.system.paths import run_folder

pytestmark = [
    *live("kubernetes", "mpi-operator", "flannel", "etcd", "cni", "docker", "iptables", "mpich"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

BYTES: Final = 65536
ITERATIONS: Final = 60
PAYLOAD: Final = BYTES * ITERATIONS
KERNELS: Final = (
    f"{{micro: {{time_limit: 90s, kernels: [{{latency: {{message_bytes: {BYTES}, iterations: {ITERATIONS}, "
    "warmup: 5}}, {barrier: {iterations: 20, warmup: 5}}]}}"
)
ENVIRONMENTS: Final = (
    "{kubernetes: , kubernetes+pod-network: , job: {runtime: kubernetes, launch: mpijob}, "
    "job+pod-network: {runtime: kubernetes, network: pod-network, launch: mpijob}, "
    "job of MPICH+pod-network: {runtime: kubernetes, network: pod-network, launch: mpijob, mpi: mpich}}"
)
NAMESPACE: Final = "tare-failing-jobs"
VXLAN: Final = "flannel.1"
ON_NODE: Final = {("data NIC", "data0")}
ON_POD_NETWORK: Final = {
    ("pod's interface", "eth0"), ("node's bridge", "cni0"), ("node's NIC", "data0"), ("node's tunnel", VXLAN),
}  # fmt: skip
ENDINGS: Final = (
    "{hangs: {runtime: kubernetes, network: pod-network, launch: mpijob}, "
    "fails: {runtime: kubernetes, network: pod-network, launch: mpijob, workdir: /proc/nowhere}}"
)
LONG: Final = "{micro: {time_limit: 40s, kernels: [{latency: {message_bytes: 8, iterations: 10000000}}]}}"
STEPS: Final = ("workers_s", "launcher_s", "ended_s")
"""Seconds from the creation of a job; `mpirun_s` is what the MPI's own launcher took."""


def test_a_study_of_mpi_jobs_runs_to_a_report_and_proves_where_their_messages_went(tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        "jobs",
        ENVIRONMENTS,
        cluster="{lab: {kubernetes: true}}",
        placements="[2x1]",
        workloads=KERNELS,
        repetition="{rounds: 1, max_rounds: 1, blocks_per_round: 1}",
    )
    result = tare("run", study, cwd=tmp_path)
    assert result.status in (0, 3), result.stdout + result.stderr
    found = trials(tmp_path / "results" / "jobs")
    assert [outcome(each) for each in found] == ["Completed"] * 5, [each["outcome"] for each in found]
    for trial in found:
        check(trial)
    report = " ".join(html.unescape((tmp_path / "results" / "jobs" / "report.html").read_text()).split())
    assert "MPIJob's workers ready after" in report
    assert list(Path("/tmp").glob(f"tare-{result.lab}x*")) == []
    assert [note for note in run_folder().iterdir() if note.name.startswith(result.lab)] == []


def check(trial: dict[str, Any]) -> None:
    """Hold a trial to its treatment: the pods of its job, on the nodes and the network that it claims."""
    cell = cell_of(trial)
    is_job, on_pod_network = cell.startswith("job"), cell.endswith("pod-network")
    assert {(each["role"], each["interface"]) for each in trial["traffic"]} == (
        ON_POD_NETWORK if on_pod_network else ON_NODE
    )
    assert all(min(each["rx_bytes"], each["tx_bytes"]) >= PAYLOAD for each in trial["traffic"]), trial["traffic"]
    assert trial["unproven"] == ""
    names = [rank["hostname"] for rank in trial["ranks"]]
    if on_pod_network:
        assert all(("-job-worker-" in name) == is_job for name in names), names
    assert len({rank["host"].partition("/")[0] for rank in trial["ranks"]}) == 2
    assert [rank["node_namespaces"] for rank in trial["ranks"]] == [[] if on_pod_network else ["net"]] * 2
    assert trial["counters"]["TcpOutSegs"] > ITERATIONS
    assert trial["noise"]["job_s"] > 0
    steps = [trial["startup_s"][name] for name in STEPS if name in trial["startup_s"]]
    assert steps == sorted(steps)
    assert len(steps) == (len(STEPS) if is_job else 0)
    if is_job:
        assert 0 < steps[0] < steps[-1] <= trial["elapsed_s"]
        assert 0 < trial["startup_s"]["mpirun_s"] < steps[-1] - steps[1]
        assert trial["startup_s"]["launch_s"] > steps[1], "what starting took is no part of what is measured"


def test_jobs_that_fail_or_hang_are_failed_trials_of_a_users_cluster_and_leave_nothing(tmp_path: Path) -> None:
    archives = [ensure_file(ensure_image(each), "docker-archive").path for each in (find_recipe(), service())]
    with lab_site() as site, in_lab.running(site.nodes, site.folder) as made:
        for archive in archives:
            made.import_image(archive)
        fields = coredns.pod_fields(coredns.address_for_pods(made.kubernetes), NAMESPACE)
        access = {"kubeconfig": str(made.kubeconfig), "pull_policy": "Never", "namespace": NAMESPACE, "pod": fields}
        study = write_study(
            tmp_path,
            "endings",
            ENDINGS,
            cluster=json.dumps({"kubernetes": access}),
            placements="[2x1]",
            workloads=LONG,
        )
        without = tare("plan", study, cwd=tmp_path)
        told = " ".join((without.stdout + without.stderr).split())
        assert (
            "the cluster has no MPIJobs (kubeflow.org/v2beta1): let an administrator install the MPI Operator" in told
        )
        with coredns.running(made.kubernetes), mpi_operator.running(made.kubernetes):
            result = tare("run", study, cwd=tmp_path)
        found = {cell_of(each): each["outcome"] for each in trials(tmp_path / "results" / "endings")}
        assert {name: each["type"] for name, each in found.items()} == dict.fromkeys(("hangs", "fails"), "Failed"), (
            found, result.stderr,
        )  # fmt: skip
        assert "did not end within its time limit of 40 s" in found["hangs"]["reason"]
        assert re.search(r"it ended with status [1-9]\d*: .*/proc/nowhere", found["fails"]["reason"]), found["fails"]
        left = made.api.ask("GET", "/api/v1/namespaces", query=[("labelSelector", SELECTOR)])
        assert left["items"] == []
