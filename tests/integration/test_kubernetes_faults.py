"""Faults of a real Kubernetes amid a study: what is recorded, how the study ends, and that nothing of it is left."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from integration.live import Ended, ended, lab_site, live, outcome, start, tare, trials, wait_for, write_study
from integration.test_networks_flannel import CANNOT
from kubernetes_rights import SELECTOR
from tare.agent import clean
from tare.clusters import ssh_clean
from tare.clusters.kubernetes_site import remove_namespace
from tare.clusters.lab_site import LabSite
from tare.clusters.pods import in_lab, manifests, nodes
from tare.clusters.pods.in_lab import LabKubernetes
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.pods import Pods
from tare.daemons import kubernetes
from tare.daemons.daemons import Daemon, command, run_daemon
from tare.errors import InfrastructureError, RequestFailed, TareError
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file, image_tag
from tare.images.recipe import service
from tare.networks import flannel
from tare.system.paths import run_folder
from tare.system.process import run

pytestmark = [
    pytest.mark.long,
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

NAMESPACE: Final = "tare-faults"
PATIENCE: Final = {"TARE_TEST_PATIENCE": "0.5"}
"""The head waits half of the real times."""
KERNELS: Final = "{w: {time_limit: 200s, kernels: [{barrier: {iterations: 50, warmup: 5}}]}}"
FINALIZER: Final = "example.invalid/kept"
PATCH: Final = "application/merge-patch+json"


@dataclass(frozen=True, kw_only=True)
class Up:
    """A Kubernetes whose daemons can be killed and started again; those that were are in `again`."""

    site: LabSite
    kubernetes: LabKubernetes
    image: str
    stack: ExitStack
    again: dict[str, Daemon] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def pods(self) -> Pods:
        return Pods(api=self.kubernetes.api, namespace=NAMESPACE)

    def kill(self, daemon: Daemon) -> None:
        """Kill a daemon by signal 9; its cgroup has no other process."""
        self.again.get(self._key(daemon), daemon).place.node.group.below(self._group(daemon)).kill()

    def start(self, daemon: Daemon, argv: tuple[str, ...]) -> None:
        """Start a daemon again, as after a crash."""
        name = f"{daemon.name}-{next(self.numbers)}"
        self.again[self._key(daemon)] = self.stack.enter_context(run_daemon(daemon.place, name, argv))

    def _group(self, daemon: Daemon) -> str:
        return f"{self.again.get(self._key(daemon), daemon).name}-{Path(daemon.place.folder).name}"

    def _key(self, daemon: Daemon) -> str:
        return f"{daemon.name} on {daemon.place.node.name}"

    def wait(self) -> None:
        """Wait until the API server answers, and every kubelet has told it since now that its node is ready."""
        made, since = self.kubernetes.kubernetes, datetime.now(UTC)
        wait_for(lambda: made.server.answers("/readyz"), "API server")
        wait_for(lambda: all(_is_ready(made, each.place.node.name, since) for each in made.kubelets), "ready nodes")

    def namespaces(self) -> set[str]:
        """Return the names of the namespaces with tare's mark, whatever their state is."""
        found = self.kubernetes.api.ask("GET", "/api/v1/namespaces", query=[("labelSelector", SELECTOR)])
        return {each["metadata"]["name"] for each in found["items"]} - {NAMESPACE}

    def containers(self) -> list[str]:
        """Return the containers that run on the nodes, whatever the API server knows of them."""
        found = []
        for each in self.kubernetes.kubernetes.containerds:
            place = each.daemon.place
            words = ("ctr", "--address", each.socket, "--namespace", "k8s.io", "tasks", "ls", "--quiet")
            found += run(command(place, place.node.group.leaf, words)).stdout.split()
        return found

    def nothing_left(self, lab: str) -> None:
        """Hold that nothing of a run is left: in the cluster, on its nodes, and here."""
        assert self.namespaces() == set()
        wait_for(lambda: not self.containers(), "end of the containers")
        assert list(Path("/tmp").glob(f"tare-{lab}x*")) == []
        assert [note.name for note in run_folder().iterdir() if note.name.startswith(lab)] == []


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    image = ensure_image(find_recipe())
    archives = [ensure_file(each, "docker-archive").path for each in (image, ensure_image(service()))]
    with ExitStack() as stack:
        site = stack.enter_context(lab_site())
        made = stack.enter_context(in_lab.running(site.nodes, site.folder))
        for archive in archives:
            made.import_image(archive)
        yield Up(site=site, kubernetes=made, image=image_tag(image), stack=stack)


@pytest.fixture(autouse=True)
def _everything_is_up(up: Up) -> Iterator[None]:
    """Wait until the cluster is whole; remove what a test that failed has left in it."""
    up.wait()
    yield
    for name in up.namespaces():
        with suppress(TareError):
            remove_namespace(up.kubernetes.api, name)


def written(up: Up, folder: Path, name: str, rounds: int = 3) -> Path:
    """Write a study of two cells on pods of both nodes."""
    cluster = json.dumps({"kubernetes": {"kubeconfig": str(up.kubernetes.kubeconfig), "pull_policy": "Never"}})
    return write_study(
        folder,
        name,
        "[kubernetes]",
        a_a="true",
        cluster=cluster,
        placements="[2x1]",
        workloads=KERNELS,
        repetition=f"{{rounds: {rounds}, max_rounds: {rounds}}}",
    )


def begun(study: Path) -> Any:
    """Start a study, and return it once a trial has been stored."""
    results = study.parent / "results" / study.stem
    process = start("run", study, cwd=study.parent, before=("env",), env=PATIENCE)
    wait_for(lambda: trials(results) or process.poll() is not None, "trial")
    assert process.poll() is None, process.communicate()
    return process


def check_stored(study: Path, *reasons: str) -> None:
    """Hold that each planned trial is stored once, that some are completed, and that all others have such a reason."""
    found = trials(study.parent / "results" / study.stem)
    keys = [json.dumps(each["key"], sort_keys=True) for each in found]
    assert len(set(keys)) == len(keys)
    assert "Completed" in set(map(outcome, found))
    failed = [each["outcome"]["reason"] for each in found if outcome(each) != "Completed"]
    assert failed, "the fault hit no trial: the test proves nothing"
    assert [each for each in failed if not re.search("|".join(reasons), each)] == []


def removed_by_the_next(up: Up, lab: str) -> None:
    """Remove what a run noted that it could not, as the next run does.

    Other runs on this machine do the same, and take up the note meanwhile, so it is tried until nothing is left.
    """

    def gone() -> bool:
        noted = tuple(each for each in ssh_clean.killed_runs() if each["lab"].startswith(f"{lab}x"))
        assert [each.unverified for each in ssh_clean.ask_hosts(noted) if each.unverified] == []
        clean.leftovers_of_the_dead()
        return not up.namespaces() and not any(note.name.startswith(lab) for note in run_folder().iterdir())

    wait_for(gone, "end of the namespace and its note")
    up.nothing_left(lab)


def test_a_kubelet_that_is_killed_costs_the_trials_of_its_node_and_leaves_nothing(up: Up, tmp_path: Path) -> None:
    study = written(up, tmp_path, "kubelet")
    process = begun(study)
    kubelet = up.kubernetes.kubernetes.kubelets[1]
    up.kill(kubelet)
    result = ended(process)
    up.start(kubelet, kubernetes.kubelet(kubelet.place.node))
    up.wait()
    shown(result, study)
    assert result.status == 4, result.stderr
    check_stored(
        study,
        r"node e\d-n1 cannot be reached",
        r"its pods could not be made: pod e\d-n1 does not run: its node n1 is not ready: Kubelet stopped posting",
        r"its pods could not be made: node n1: pod e\d-n1 does not run: no node can take the pod: .*unreachable",
    )
    assert "Traceback" not in result.stderr
    up.nothing_left(result.lab)


def test_an_api_server_that_is_gone_ends_the_study_which_is_resumed_when_it_is_back(up: Up, tmp_path: Path) -> None:
    study = written(up, tmp_path, "api")
    process = begun(study)
    server = up.kubernetes.kubernetes.api
    up.kill(server)
    result = ended(process)
    up.start(server, kubernetes.api_server(up.kubernetes.kubernetes.address))
    up.wait()
    shown(result, study)
    assert result.status == 5, result.stderr
    assert "Traceback" not in result.stderr
    told = " ".join(result.stderr.split())
    assert re.search(r"the Kubernetes API server https://\S+ does not answer: ", told), told
    assert "its pods and its namespace are left there (not verified), for the next run or `tare clean`" in told
    check_stored(study, "the Kubernetes API server .* does not answer", r"node e\d-n\d cannot be reached")
    removed_by_the_next(up, result.lab)
    again = tare("run", study, cwd=tmp_path)
    assert again.status in (0, 3, 4), again.stderr
    assert outcome(trials(tmp_path / "results" / "api")[-1]) == "Completed"
    up.nothing_left(again.lab)


def test_a_pod_that_a_finalizer_keeps_is_named_and_removed_when_the_finalizer_is_gone(up: Up, tmp_path: Path) -> None:
    study = written(up, tmp_path, "stuck")
    process = begun(study)
    (name,) = up.namespaces()
    path = f"/api/v1/namespaces/{name}/pods"
    api = up.kubernetes.api
    pod = min(each["metadata"]["name"] for each in api.ask("GET", path)["items"])
    api.ask("PATCH", f"{path}/{pod}", {"metadata": {"finalizers": [FINALIZER]}}, kind=PATCH)
    result = ended(process)
    shown(result, study)
    api.ask("PATCH", f"{path}/{pod}", {"metadata": {"finalizers": None}}, kind=PATCH)
    assert result.status == 5, result.stderr
    told = " ".join(result.stderr.split())
    assert f"the pods {pod} are not removed after 30 s: pod {pod} has the finalizer {FINALIZER}" in told, told
    assert "who set a finalizer removes it" in told
    removed_by_the_next(up, result.lab)


def test_what_a_limit_range_changes_in_pods_is_in_the_report(up: Up, tmp_path: Path) -> None:
    study = written(up, tmp_path, "limits", rounds=2)
    process = start("run", study, cwd=tmp_path)
    api = up.kubernetes.api
    (name,) = wait_for(up.namespaces, "namespace")
    api.ask(
        "POST",
        f"/api/v1/namespaces/{name}/limitranges",
        limit_range(default={"cpu": "1500m"}, defaultRequest={"cpu": "10m"}),
    )
    result = ended(process)
    shown(result, study)
    assert result.status in (0, 3), result.stderr
    last = trials(tmp_path / "results" / "limits")[-1]
    said = "spec.containers[0].resources.limits.cpu is 1500m, which was not asked for"
    assert said in json.dumps(last["facts"])
    assert said in html.unescape((tmp_path / "results" / "limits" / "report.html").read_text())
    up.nothing_left(result.lab)


def test_what_a_limit_range_does_not_let_a_pod_have_is_refused_with_what_helps(up: Up) -> None:
    api, name = up.kubernetes.api, "tare-limits"
    api.ask("POST", "/api/v1/namespaces", manifests.namespace(name, "test", {}))
    try:
        api.ask("POST", f"/api/v1/namespaces/{name}/limitranges", limit_range(max={"cpu": "1"}))
        pods = Pods(api=api, namespace=name)
        spec = PodSpec(
            name="p", namespace=name, run="test", slot=0, node="n0", image=up.image, node_image=up.image, cpus=2
        )
        with pytest.raises(InfrastructureError, match="maximum cpu usage per Container is 1, but limit is 2") as caught:
            pods.create(spec)
        assert "LimitRange" in caught.value.remedy
        assert pods.create(replace(spec, cpus=0.5)) == (), "the server writes 0.5 as 500m"
    finally:
        remove_namespace(api, name)


def limit_range(**limits: Mapping[str, str]) -> dict[str, Any]:
    """Return a LimitRange for containers."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits"},
        "spec": {"limits": [{"type": "Container", **limits}]},
    }


def shown(result: Ended, study: Path) -> None:
    """Print how a study ended, for who reads of a test that failed."""
    print(f"status {result.status}\n{result.stdout[-1500:]}\n{result.stderr[-3000:]}")
    for each in trials(study.parent / "results" / study.stem):
        print(each["key"]["round"], each["key"]["cell"], json.dumps(each["outcome"])[:400])


def _is_ready(made: kubernetes.KubernetesDaemons, node: str, since: datetime) -> bool:
    """Return whether a node is ready and not tainted, and its kubelet has said that it is there since a moment."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
    try:
        lease, answer = (made.server.ask("GET", each) for each in (path, f"/api/v1/nodes/{node}"))
    except RequestFailed:
        return False
    renewed = datetime.fromisoformat(lease.get("spec", {}).get("renewTime", "2000-01-01T00:00:00+00:00"))
    return renewed > since and not nodes.read(answer).unusable
