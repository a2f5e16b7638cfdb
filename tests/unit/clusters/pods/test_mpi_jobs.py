"""MPIJobs: what is always in a manifest, what is read of a job's state, and every way in which a job does not start."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubernetes_rights import OF_JOBS
from mpi_jobs import run_to_end
from tare.clusters.pods import manifests
from tare.clusters.pods.api import ApiError
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.mpi_jobs import run as run_module
from tare.clusters.pods.mpi_jobs.manifest import HOST_FILE, KEYS, PORT, MpiJob, mpi_job
from tare.clusters.pods.mpi_jobs.run import MpiJobs
from tare.clusters.pods.mpi_jobs.status import JobState, selector, state_of
from tare.daemons import coredns, mpi_operator
from tare.daemons.kubernetes import read_definition
from tare.errors import InfrastructureError

POD = PodSpec(name="p", namespace="tare-x", run="r", slot=3, node="", image="reg.example/t@sha256:0", node_image="n")
JOB = MpiJob(name="j", pod=POD, nodes=("a", "b"), command=("mpirun", "prog"), deadline_s=30, start_s=20)


def templates(job: MpiJob) -> dict[str, dict[str, Any]]:
    return {role: each["template"]["spec"] for role, each in mpi_job(job)["spec"]["mpiReplicaSpecs"].items()}


def test_no_job_is_without_deadlines_and_a_policy_for_what_is_left() -> None:
    made = mpi_job(JOB)
    assert (made["apiVersion"], made["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    policy = made["spec"]["runPolicy"]
    assert (policy["cleanPodPolicy"], policy["backoffLimit"], policy["activeDeadlineSeconds"]) == ("All", 0, 30)
    assert policy["ttlSecondsAfterFinished"] > 0
    assert made["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    assert made["metadata"]["labels"] == manifests.marked("r")
    specs = templates(JOB)
    assert specs["Worker"]["activeDeadlineSeconds"] == 50
    assert made["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 2
    assert {each["restartPolicy"] for each in made["spec"]["mpiReplicaSpecs"].values()} == {"Never"}


def test_a_job_has_what_a_studys_pod_has() -> None:
    pod = replace(
        POD, cpus=2, memory="1Gi", shared_memory="512Mi", host_network=True, runtime_class="fast", pull_secrets=("s",),
        variables=("A=1",), annotations={"k": "v"}, fields={"tolerations": [{"operator": "Exists"}]},
        resources={"rdma/hca": "1"},
    )  # fmt: skip
    made = templates(replace(JOB, pod=pod))
    plain = manifests.pod(pod)["spec"]
    for spec in made.values():
        for key in ("hostNetwork", "runtimeClassName", "imagePullSecrets", "tolerations", "volumes", "securityContext"):
            assert spec[key] == plain[key], key
        assert spec["automountServiceAccountToken"] is False
        (container,) = spec["containers"]
        assert (container["name"], container["image"]) == (manifests.RANKS, "reg.example/t@sha256:0")
        assert {"name": "A", "value": "1"} in container["env"]
    (worker,) = made["Worker"]["containers"]
    assert worker["resources"] == plain["containers"][0]["resources"]
    assert "rdma/hca" not in made["Launcher"]["containers"][0]["resources"]["limits"]
    assert "resources" not in templates(JOB)["Launcher"]["containers"][0]
    annotations = mpi_job(replace(JOB, pod=pod))["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]
    assert annotations["annotations"] == {"k": "v"}


def test_workers_are_one_a_node_and_ready_when_their_sshd_listens() -> None:
    specs = templates(JOB)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for role, nodes in (("Worker", ["a", "b"]), ("Launcher", ["a"])):
        (term,) = specs[role]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == nodes
    (apart,) = specs["Worker"]["affinity"]["podAntiAffinity"][required]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    stated = ",".join(f"{key}={value}" for key, value in apart["labelSelector"]["matchLabels"].items())
    assert stated == selector("j", "worker")
    (worker,) = specs["Worker"]["containers"]
    assert worker["startupProbe"]["tcpSocket"] == {"port": PORT}
    assert "readinessProbe" not in worker, "nobody asks a worker's sshd while its ranks measure"
    assert f"-p {PORT}" in worker["command"][2]
    (launcher,) = specs["Launcher"]["containers"]
    assert launcher["command"][3:] == ["j-launcher.j.tare-x.svc", "mpirun", "prog"]
    assert f"ssh -p {PORT}" in launcher["command"][2]
    assert (mpi_job(JOB)["spec"]["sshAuthMountPath"], HOST_FILE) == (KEYS, "/etc/mpi/hostfile")


def condition(kind: str, status: str = "True", **other: str) -> dict[str, str]:
    return {"type": kind, "status": status, **other}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], JobState()),
        ([condition("Created"), condition("Running")], JobState()),
        ([condition("Created"), condition("Running", "False"), condition("Succeeded")], JobState(succeeded=True)),
        ([condition("Failed", "False")], JobState()),
        ([condition("Failed", reason="Backoff", message="no\x1b")], JobState(failed=True, why="Backoff: no\\x1b")),
    ],
)
def test_the_state_is_the_operators(conditions: list[dict[str, str]], expected: JobState) -> None:
    told = state_of({"status": {"conditions": conditions}})
    assert (told, told.has_ended) == (expected, expected.succeeded or expected.failed)


@given(st.recursive(st.none() | st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["status", "conditions", "type", "reason"]), inner), max_leaves=10))  # fmt: skip
def test_an_odd_state_is_none(odd: Any) -> None:
    assert not state_of({"status": odd}).succeeded
    assert not state_of({"status": {"conditions": odd}}).succeeded


class Cluster:
    """An operator's cluster: each request for the job takes the next of `states`; `pods` are by role."""

    host = "https://cluster.example"

    def __init__(self, states: Sequence[Mapping[str, Any]] = (), **pods: Sequence[Mapping[str, Any]]) -> None:
        self.states = list(states)
        self.pods = {role: list(each) for role, each in pods.items()}
        self.jobs: dict[str, Any] = {}
        self.deleted: list[str] = []
        self.refusal: ApiError | None = None

    def ask(self, method: str, path: str, body: Any = None, *, query: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        if path.endswith("/pods"):
            role = re.search(r"role=(\w+)", dict(query)["labelSelector"])
            assert role is not None
            return {"items": self.pods.get(role[1], []) if self.jobs else []}
        assert path.startswith("/apis/kubeflow.org/v2beta1/namespaces/tare-x/mpijobs")
        if method == "POST":
            if self.refusal:
                raise self.refusal
            self.jobs[body["metadata"]["name"]] = body
            return dict(body)
        name = path.rpartition("/")[2]
        if name not in self.jobs:
            raise ApiError("gone", status=404)
        if method == "DELETE":
            self.deleted.append(name)
            del self.jobs[name]
            return {}
        return {"status": {"conditions": self.states.pop(0) if len(self.states) > 1 else self.states[0]}}

    def read(self, path: str, query: Sequence[tuple[str, str]] = (), *, limit_s: float = 0.0) -> str:
        assert (("follow" in dict(query)), dict(query)["container"]) == ((limit_s > 0), manifests.RANKS)
        return f"output of {path.split('/')[-2]}"


def pod(name: str, phase: str = "Running", **status: Any) -> dict[str, Any]:
    ready = {"containerStatuses": [{"ready": phase == "Running", "state": {}}]}
    return {"metadata": {"name": name}, "status": {"phase": phase, **ready, **status}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "PAUSE_S", 0.001)
    monkeypatch.setattr(run_module, "SLACK_S", 0.05)
    monkeypatch.setattr(run_module, "GONE_S", 0.05)


def test_a_job_is_run_read_and_removed_with_the_least_rights() -> None:
    workers, launcher = [pod("j-worker-0"), pod("j-worker-1")], [pod("j-launcher-x", "Succeeded")]
    cluster = Cluster([[], [], [condition("Succeeded")]], worker=workers, launcher=launcher)
    ended = run_to_end(MpiJobs(cluster, "tare-x"), replace(JOB, start_s=600, deadline_s=600))  # type: ignore[arg-type]
    assert (ended.state.succeeded, ended.output, cluster.deleted) == (True, "output of j-launcher-x", ["j"])
    assert list(ended.took) == ["workers_s", "launcher_s", "ended_s"]
    assert 0 < ended.took["workers_s"] <= ended.took["launcher_s"] <= ended.took["ended_s"]
    found = [(rule["resources"], rule["verbs"]) for rule in OF_JOBS]
    assert found == [(["mpijobs"], ["create", "delete", "get"]), (["pods/log"], ["get"])]
    assert mpi_operator.operator()[:2] == ("env", "--unset=KUBECONFIG")
    fields = coredns.pod_fields("10.0.0.1", "ns")
    assert (fields["dnsPolicy"], fields["dnsConfig"]["nameservers"]) == ("None", ["10.0.0.1"])
    assert "kubernetes cluster.local" in coredns.corefile()


PULLS = {"name": "ranks", "image": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}
AT_ONCE = replace(JOB, start_s=0)


@pytest.mark.parametrize(
    ("pods", "job", "said"),
    [
        ({"worker": [pod("j-worker-0", "Pending", containerStatuses=[PULLS])]}, JOB,
         "worker j-worker-0 does not run: the image i cannot be pulled"),
        ({"worker": [pod("j-worker-0")]}, AT_ONCE, "1 of 2 workers exist"),
        ({}, AT_ONCE, "0 of 2 workers exist"),
        ({"worker": [], "launcher": [pod("j-launcher-x")]}, replace(AT_ONCE, deadline_s=0), "is still running"),
    ],
    ids=["image", "one is missing", "no operator", "no end"],
)  # fmt: skip
def test_a_job_that_does_not_start_says_why_and_is_removed(pods: dict[str, Any], job: MpiJob, said: str) -> None:
    cluster = Cluster([[]], **pods)
    with pytest.raises(InfrastructureError, match=re.escape(said)) as caught:
        run_to_end(MpiJobs(cluster, "tare-x"), job)  # type: ignore[arg-type]
    assert caught.value.remedy
    assert cluster.deleted == ["j"]


@pytest.mark.parametrize(
    ("status", "remedy"), [(404, "install the MPI Operator"), (403, "let an administrator allow this user to do it")]
)
def test_a_cluster_without_operator_or_rights_says_so(status: int, remedy: str) -> None:
    cluster = Cluster()
    cluster.refusal = ApiError("no", status=status)
    with pytest.raises(InfrastructureError, match="MPIJob j") as caught:
        run_to_end(MpiJobs(cluster, "tare-x"), JOB)  # type: ignore[arg-type]
    assert remedy in caught.value.remedy
    assert cluster.deleted == []


@pytest.mark.requires("mpi-operator")
def test_the_definition_knows_all_that_a_manifest_says() -> None:
    schema = read_definition(mpi_operator.DEFINITION)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    def check(value: Any, known: Mapping[str, Any], path: str) -> None:
        if isinstance(value, dict) and "properties" in known:
            for key, inner in value.items():
                assert key in known["properties"], f"{path}.{key}"
                check(inner, known["properties"][key], f"{path}.{key}")
        elif isinstance(value, dict) and isinstance(known.get("additionalProperties"), dict):
            for key, inner in value.items():
                check(inner, known["additionalProperties"], f"{path}.{key}")
        elif isinstance(value, list):
            for inner in value:
                check(inner, known.get("items", {}), path)
        elif enum := known.get("enum"):
            assert value in enum, path

    full = replace(JOB, pod=replace(POD, cpus=1, memory="1Gi", host_network=True, pull_secrets=("s",)))
    check(yaml.safe_load(json.dumps(mpi_job(full)["spec"])), schema["properties"]["spec"], "spec")
