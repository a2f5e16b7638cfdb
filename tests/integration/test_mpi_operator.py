"""The real MPI Operator on a real Kubernetes: an MPIJob measures across workers, and what cannot run says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from integration.live import lab_site, live, sent_on
from integration.test_networks_flannel import CANNOT
from mpi_jobs import launched, run_to_end
from tare.clusters.lab_site import LabSite
from tare.clusters.pods import in_lab, manifests
from tare.clusters.pods.in_lab import LabKubernetes
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.mpi_jobs.manifest import MpiJob
from tare.clusters.pods.mpi_jobs.run import EndedJob, MpiJobs
from tare.clusters.pods.pod_networks.look import pod_network
from tare.daemons import coredns, mpi_operator
from tare.errors import InfrastructureError
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file, image_tag
from tare.networks import flannel
from tare.workloads.output import decode, ranks_of, records
from waiting import wait_until

pytestmark = [
    *live("kubernetes", "mpi-operator", "flannel", "etcd", "cni", "docker", "iptables", "mpich"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

NAMESPACE: Final = "tare-mpi"
VXLAN: Final = "flannel.1"
ITERATIONS: Final = 200
LATENCY: Final = ("/opt/tare/bin/tare-kernels", f"latency:bytes=8,iterations={ITERATIONS},warmup=20")
OF_JOB: Final = ("configmaps", "secrets", "services", "pods")
TCP: Final = ("OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,tcp")
DATA: Final = ("OMPI_MCA_btl_tcp_if_include=10.214.0.0/24",)
"""The nodes' data network: their names are of the control network, by which ssh goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """What the tests of this file share."""

    site: LabSite
    kubernetes: LabKubernetes
    jobs: MpiJobs
    image: str

    def job(self, name: str, command: tuple[str, ...], *, on_host: bool = False, **other: Any) -> MpiJob:
        made = self.kubernetes.kubernetes
        address = made.address if on_host else coredns.address_for_pods(made)
        fields = coredns.pod_fields(address, NAMESPACE)
        pod = PodSpec(
            name=name, namespace=NAMESPACE, run="test", slot=0, node="", image=self.image, node_image="",
            pull_policy="Never", variables=(*TCP, *DATA) if on_host else TCP, fields=fields, host_network=on_host,
        )  # fmt: skip
        nodes = tuple(node.name for node in self.site.nodes)
        return replace(MpiJob(name=name, pod=pod, nodes=nodes, command=command, deadline_s=2000, start_s=1200), **other)

    def left(self) -> list[str]:
        """Return what there is of jobs in the namespace, but for what every namespace has."""
        api, found = self.kubernetes.api, []
        for kind in OF_JOB:
            items = api.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/{kind}")["items"]
            found += [f"{kind} {each['metadata']['name']}" for each in items]
        for path in ("batch/v1", "kubeflow.org/v2beta1"):
            kind = "jobs" if path == "batch/v1" else "mpijobs"
            items = api.ask("GET", f"/apis/{path}/namespaces/{NAMESPACE}/{kind}")["items"]
            found += [f"{kind} {each['metadata']['name']}" for each in items]
        return [each for each in found if each != "configmaps kube-root-ca.crt"]

    def wait_until_nothing_is_left(self) -> None:
        wait_until(lambda: not self.left(), "end of what the job had")  # the garbage collector follows it


def said(ended: EndedJob) -> str:
    """Return all that a job said, which an assertion would shorten."""
    return f"{ended.state}\n{ended.took}\n{ended.output}"


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    image = ensure_image(find_recipe())
    archive = ensure_file(image, "docker-archive").path
    with (
        lab_site() as site,
        in_lab.running(site.nodes, site.folder) as made,
        coredns.running(made.kubernetes),
        mpi_operator.running(made.kubernetes),
    ):
        made.import_image(archive)
        made.api.ask("POST", "/api/v1/namespaces", manifests.namespace(NAMESPACE, "test", {}))
        jobs = MpiJobs(made.api, NAMESPACE)
        yield Up(site=site, kubernetes=made, jobs=jobs, image=image_tag(image))


@pytest.mark.parametrize("on_host", [False, True], ids=["pod network", "host network"])
def test_an_mpi_job_measures_across_two_workers_and_leaves_nothing(up: Up, on_host: bool) -> None:
    before = sum(sent_on(up.site, VXLAN))
    options = ("--bind-to", "none", "--map-by", "node")
    ended = run_to_end(up.jobs, up.job("latency", launched(2, LATENCY, options), on_host=on_host))
    assert ended.state.succeeded, said(ended)
    found = list(records(ended.output))
    hosts = ["n0", "n1"] if on_host else ["latency-worker-0", "latency-worker-1"]
    assert [rank.hostname for rank in ranks_of(found)] == hosts
    (kernel,) = [each for each in found if each["type"] == "kernel"]
    (samples, *_) = decode(kernel["columns"], kernel["data"]).values()
    assert len(samples) == ITERATIONS
    assert 0 < min(samples) < max(samples) < 1
    sent = sum(sent_on(up.site, VXLAN)) - before
    assert (sent > 220 * 2 * 8) != on_host, f"{sent} bytes through VXLAN"
    took = ended.took
    assert 0 < took["workers_s"] <= took["launcher_s"] <= took["ended_s"]
    assert sum(samples) < took["ended_s"], "launching is no part of what is measured"
    up.wait_until_nothing_is_left()


def test_an_mpi_job_of_another_mpi_measures_as_well(up: Up) -> None:
    image = ensure_image(find_recipe("debian-mpich"))
    up.kubernetes.import_image(ensure_file(image, "docker-archive").path)
    job = up.job("mpich", launched(2, LATENCY, ("-ppn", "1")), implementation="MPICH")
    ended = run_to_end(up.jobs, replace(job, pod=replace(job.pod, image=image_tag(image), variables=())))
    assert ended.state.succeeded, said(ended)
    found = list(records(ended.output))
    assert [rank.hostname for rank in ranks_of(found)] == ["mpich-worker-0", "mpich-worker-1"]
    up.wait_until_nothing_is_left()


def test_a_program_that_fails_is_reported_with_its_output(up: Up) -> None:
    ended = run_to_end(up.jobs, up.job("fails", ("sh", "-c", "echo before; echo no >&2; exit 7")))
    assert (ended.state.succeeded, ended.state.failed) == (False, True)
    assert "BackoffLimitExceeded" in ended.state.why
    assert sorted(ended.output.split()) == ["before", "no"]
    up.wait_until_nothing_is_left()


def test_a_launcher_that_hangs_is_ended_by_its_deadline(up: Up) -> None:
    ended = run_to_end(up.jobs, up.job("hangs", ("sleep", "600"), deadline_s=4))
    assert ended.state.failed
    assert "DeadlineExceeded" in ended.state.why
    up.wait_until_nothing_is_left()


def test_workers_that_cannot_run_say_why(up: Up) -> None:
    job = up.job("absent", ("true",))
    with pytest.raises(
        InfrastructureError, match=r"worker absent-worker-\d does not run: the node does not have the image"
    ):
        run_to_end(up.jobs, replace(job, pod=replace(job.pod, image="tare/absent:1")))
    with pytest.raises(InfrastructureError, match="worker three-worker-2 does not run: no node can take the pod"):
        run_to_end(up.jobs, replace(up.job("three", ("true",)), nodes=("n0", "n1", "n9"), start_s=3))
    up.wait_until_nothing_is_left()


def test_the_network_of_the_lab_is_recognised(up: Up) -> None:
    told = pod_network(up.kubernetes.api)
    assert (told.product, told.encapsulation, told.unread) == ("Flannel", "VXLAN", ())
    assert "the nodes state the backend vxlan" in told.evidence
