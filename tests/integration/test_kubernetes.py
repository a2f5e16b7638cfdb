"""A real Kubernetes on two nodes of a lab: pods, commands in them, MPI jobs across them, and what is refused."""

from __future__ import annotations

import html
import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from integration.live import cell_of, ended, lab_site, live, outcome, sent_on, start, tare, trials, write_study
from integration.test_networks_flannel import CANNOT
from kubernetes_rights import SELECTOR
from kubernetes_rights import role as role_of
from tare.agent import clean
from tare.clusters import ssh_clean
from tare.clusters.lab_site import LabSite
from tare.clusters.pods import api, in_lab, manifests
from tare.clusters.pods.gate import ExecServer
from tare.clusters.pods.in_lab import LabKubernetes
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.pods import Pods
from tare.clusters.pods.relay import AGENT, ExecRelay
from tare.clusters.pods.session import ExecPool, PodContainer
from tare.daemons.kubernetes import User
from tare.errors import InfrastructureError
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file, image_tag
from tare.images.recipe import service
from tare.networks import flannel
from tare.system.paths import run_folder
from tare.system.process import Result, run
from tare.workloads.output import ranks_of, records
from waiting import wait_until

pytestmark = [
    *live("kubernetes", "flannel", "etcd", "cni", "docker", "iptables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

NAMESPACE: Final = "tare-test"
FOLDER: Final = "/tmp/tare-test"
VXLAN: Final = "flannel.1"
USER: Final = User(name="student")
NOBODY: Final = User(name="nobody")
LATENCY: Final = ("/opt/tare/bin/tare-kernels", "latency:bytes=8,iterations=200,warmup=20")


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """What the tests of this file share."""

    site: LabSite
    kubernetes: LabKubernetes
    pods: Pods
    gate: ExecServer
    image: str

    def spec(self, name: str, node: str, **other: object) -> PodSpec:
        values = {"namespace": NAMESPACE, "run": "test", "slot": 0, "image": self.image, "node_image": self.image}
        return PodSpec(**{"name": name, "node": node, "pull_policy": "Never", **values, **other})  # type: ignore[arg-type]

    def run(self, pod: str, *argv: str, stdin: str = "") -> Result:
        return run((*self.gate.argv(pod), *argv), stdin=stdin, check=False)


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    image = ensure_image(find_recipe())
    archives = [ensure_file(each, "docker-archive").path for each in (image, ensure_image(service()))]
    with (
        lab_site() as site,
        in_lab.running(site.nodes, site.folder, users=(USER, NOBODY)) as made,
    ):
        for archive in archives:
            made.import_image(archive)
        made.api.ask("POST", "/api/v1/namespaces", manifests.namespace(NAMESPACE, "test", {}))
        gate = ExecServer(site.folder)
        try:
            yield Up(
                site=site,
                kubernetes=made,
                pods=Pods(api=made.api, namespace=NAMESPACE),
                gate=gate,
                image=image_tag(image),
            )
        finally:
            gate.close()


@pytest.fixture(params=["host network", "flannel"])
def pair(up: Up, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Keep a pod on each node, on the nodes' network or on flannel's; yield their names and the network."""
    on_host = request.param == "host network"
    names = [f"{'host' if on_host else 'pod'}-{node.name}" for node in up.site.nodes]
    for node, name in zip(up.site.nodes, names, strict=True):
        assert up.pods.create(up.spec(name, node.name, host_network=on_host)) == ()
    up.pods.wait(names)
    for name in names:
        up.gate.add(name, ExecPool(up.pods.api, PodContainer(namespace=NAMESPACE, pod=name, name=manifests.RANKS)))
    yield names[0], names[1]
    for name in names:
        up.gate.remove(name)
    up.pods.remove(names)


def test_commands_in_pods_behave_as_commands(up: Up, pair: tuple[str, str]) -> None:
    first, second = pair
    for ready in (False, True):
        if ready:
            up.gate.prepare()
        result = up.run(first, "sh", "-c", "cat; echo no >&2; exit 3", stdin="two\nlines\n")
        assert (result.status, result.stdout, result.stderr) == (3, "two\nlines\n", "no\n")
        words = ["a b", "c\nd", "%s\\n", "'\"$HOME`", "ü"]
        assert up.run(second, "printf", "%s|", *words).stdout == "".join(f"{word}|" for word in words)
    assert up.run(first, "no-such-program").status != 0
    assert "there is no pod" in up.run("elsewhere", "true").stderr
    many = up.run(first, "sh", "-c", "yes 0123456789 | head -n 100000")
    assert len(many.stdout) == 1_100_000


def test_an_mpi_job_runs_across_pods_and_its_messages_take_their_network(up: Up, pair: tuple[str, str]) -> None:
    first, second = pair
    pods = dict(zip(("n0", "n1"), pair, strict=True))
    for pod in pair:
        script = 'mkdir -p "$0" && cat > "$0/agent" && chmod 700 "$0/agent"'
        assert up.run(pod, "sh", "-c", script, FOLDER, stdin=AGENT).status == 0
    asked: list[list[str]] = []

    def start(words: list[str]) -> tuple[str, list[str]]:
        asked.append(words)
        return pods[words[0]], ["/bin/sh", "-c", " ".join(words[1:])]

    relay = ExecRelay(up.gate, first, FOLDER, start)
    up.gate.prepare()
    subnet = "10.214.0.0/24" if first.startswith("host") else "10.244.0.0/16"
    parameters = {"pml": "ob1", "btl": "self,tcp", "btl_tcp_if_include": subnet, "oob_tcp_if_include": subnet}
    parameters |= {"plm_rsh_agent": f"{FOLDER}/agent"}
    variables = [f"OMPI_MCA_{name}={value}" for name, value in parameters.items()]
    variables += ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
    before = sum(sent_on(up.site, VXLAN))
    mpirun = ("mpirun", "-H", "n0:1,n1:1", "-np", "2", "--bind-to", "none")
    result = up.run(first, "env", *variables, *mpirun, *LATENCY)
    relay.close()
    assert result.status == 0, result.stderr
    hosts = [rank.hostname for rank in ranks_of(records(result.stdout))]
    assert [re.sub("^pod-", "", host) for host in hosts] == ["n0", "n1"]
    assert asked
    sent = sum(sent_on(up.site, VXLAN)) - before
    assert (sent > 220 * 2 * 8) != first.startswith("host"), f"{sent} bytes through VXLAN"
    left = up.run(second, "sh", "-c", "ls /proc | grep -c '^[0-9]'; grep -l orted /proc/[0-9]*/comm").stdout
    assert "comm" not in left, "no daemon of the job is left in the other pod"


def test_a_pod_that_cannot_run_says_why(up: Up) -> None:
    node = up.site.nodes[0].name
    refused = {
        "absent": ({"image": "tare/absent:1"}, "the node does not have the image tare/absent:1"),
        "huge": ({"cpus": 1000}, "no node can take the pod: 0/2 nodes are available"),
        "nowhere": ({"node": "n9"}, "no node can take the pod"),
    }
    for name, (changed, said) in refused.items():
        up.pods.create(up.spec(name, **{"node": node, **changed}))  # type: ignore[arg-type]
        try:
            with pytest.raises(InfrastructureError, match=f"pod {name} does not run: {said}"):
                up.pods.wait([name])
        finally:
            up.pods.remove([name])
    with pytest.raises(InfrastructureError, match="pod gone: "):
        up.pods.read("gone")


def test_a_user_with_the_least_role_can_do_what_a_study_does_and_no_more(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    here = json.loads(up.kubernetes.kubeconfig.read_text())
    file.write_text(json.dumps({**here, "users": [{"name": "tare-admin", "user": {"token": USER.token}}]}))
    student = Pods(api=api.opened(str(file)), namespace=NAMESPACE)
    spec = up.spec("least", up.site.nodes[0].name)
    with pytest.raises(InfrastructureError, match=r'pod least: .*cannot create resource "pods"') as caught:
        student.create(spec)
    assert caught.value.remedy.startswith("let an administrator allow this user to create pods")
    for each in role_of("tare-student", USER.name):
        path = f"/apis/rbac.authorization.k8s.io/v1/{each['kind'].lower()}s"
        up.kubernetes.api.ask("POST", path, each)
    wait_until(lambda: is_created(student, spec))  # the API server learns of a role some milliseconds later
    student.wait(["least"])
    gate_key = "least/ranks"
    up.gate.add(gate_key, ExecPool(student.api, PodContainer(namespace=NAMESPACE, pod="least", name=manifests.RANKS)))
    assert up.run(gate_key, "echo", "in").stdout == "in\n"
    assert up.run(gate_key, "ls", "/var/run/secrets").status != 0, "no token in the pod"
    up.gate.remove(gate_key)
    student.remove(["least"])
    with pytest.raises(api.ApiError, match="cannot list"):
        student.api.ask("GET", "/api/v1/secrets")


BYTES: Final = 65536
KERNELS: Final = (
    f"{{micro: {{time_limit: 60s, kernels: [{{latency: {{message_bytes: {BYTES}, iterations: 60, warmup: 5}}}}, "
    "{barrier: {iterations: 20, warmup: 5}}]}}"
)
PAYLOAD: Final = BYTES * 60
ROLES: Final = {
    "kubernetes": {("data NIC", "data0")},
    "kubernetes+pod-network": {("pod's interface", "eth0"), ("node's NIC", "data0"), ("node's tunnel", VXLAN)},
}


def test_a_study_runs_on_pods_to_a_report_that_names_their_network(up: Up, tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        "pods",
        list(ROLES),
        cluster=on(up),
        placements="[2x1]",
        workloads=KERNELS,
        repetition="{rounds: 2, max_rounds: 2}",
    )
    before = namespaces(up)
    result = tare("run", study, cwd=tmp_path)
    assert result.status in (0, 3), result.stdout + result.stderr
    found = trials(tmp_path / "results" / "pods")
    assert [outcome(each) for each in found] == ["Completed"] * 4, found
    for trial in found:
        cell = cell_of(trial)
        assert {(each["role"], each["interface"]) for each in trial["traffic"]} == ROLES[cell]
        assert all(min(each["rx_bytes"], each["tx_bytes"]) >= PAYLOAD for each in trial["traffic"])
        hosts = [(rank["hostname"], rank["host"].partition("/")[0]) for rank in trial["ranks"]]
        nodes = [(each.name, each.boot_id) for each in up.site.nodes]
        assert [(name.rpartition("-")[2], boot_id) for name, boot_id in hosts] == nodes
        assert [rank["node_namespaces"] for rank in trial["ranks"]] == [[] if "pod" in cell else ["net"]] * 2
        assert trial["facts"]["mtu"] == ("1450" if "pod" in cell else "1500")
        assert trial["counters"]["TcpOutSegs"] > 60
        assert trial["noise"]["job_s"] > 0, "the time of a container beside the service"
        assert bool(trial["partly_proven"]) == (cell == "kubernetes")
    report = " ".join(html.unescape((tmp_path / "results" / "pods" / "report.html").read_text()).split())
    assert "Kubernetes v1.31.4; nodes n0, n1; containerd://" in report
    assert "pods' network: Flannel (VXLAN" in report
    assert "eth0 MTU 1450, over data0 MTU 1500, through flannel.1 (vxlan)" in report
    assert namespaces(up) == before
    assert list(Path("/tmp").glob(f"tare-{result.lab}x*")) == []
    assert [note for note in run_folder().iterdir() if note.name.startswith(result.lab)] == []


def on(up: Up, **more: object) -> str:
    """Return the cluster of a study in YAML: that of this file, with further settings."""
    settings = {"kubeconfig": str(up.kubernetes.kubeconfig), "pull_policy": "Never", **more}
    return json.dumps({"kubernetes": settings})


SHARED: Final = "{nodes: 2, ranks_per_node: 2, containers_per_node: 2, share: none, oversubscribe: true}"


def test_a_pod_a_rank_has_a_host_and_an_address_of_its_own_and_what_the_study_gives_it(up: Up, tmp_path: Path) -> None:
    fields = {"tolerations": [{"key": "none.invalid/here", "operator": "Exists"}], "terminationGracePeriodSeconds": 0}
    study = write_study(
        tmp_path,
        "each",
        "[kubernetes+pod-network]",
        cluster=on(up, pod=fields, annotations={"example.invalid/note": "kept"}),
        a_a="true",
        placements=f"[{SHARED}]",
        workloads="{w: {kernels: [{barrier: {iterations: 20, warmup: 5}}]}}",
    )
    process = start("run", study, cwd=tmp_path)
    seen = {each["metadata"]["name"]: each for each in watched_pods(up, f"s{process.pid}", 4)}
    result = ended(process)
    for trial in (found := trials(tmp_path / "results" / "each")):
        assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
        names = [rank["hostname"].partition("-")[2] for rank in trial["ranks"]]
        assert names == ["n0c0", "n0c1", "n1c0", "n1c1"]
        check_apart(trial)
    assert len(found) == 2
    for pod in seen.values():
        assert pod["metadata"]["annotations"]["example.invalid/note"] == "kept"
        assert fields["tolerations"][0] in pod["spec"]["tolerations"]  # type: ignore[index]


def check_apart(trial: dict[str, Any]) -> None:
    """Hold the ranks of a trial to a network and an address of their own each."""
    assert len({rank["namespaces"]["net"] for rank in trial["ranks"]}) == 4
    assert [each["node"] for each in trial["traffic"]] == ["n0c0", "n0c1", "n1c0", "n1c1"]
    assert all(each["tx_bytes"] > 1000 for each in trial["traffic"])


def test_the_next_run_removes_the_namespace_of_one_that_was_killed(up: Up, tmp_path: Path) -> None:
    before = namespaces(up)
    study = write_study(tmp_path, "killed", "[kubernetes]", a_a="true", cluster=on(up), placements="[2x1]")
    process = start("run", study, cwd=tmp_path)
    watched_pods(up, f"s{process.pid}", 2)
    os.killpg(process.pid, signal.SIGKILL)
    result = ended(process)
    (left,) = namespaces(up) - before
    assert left.startswith(f"tare-{result.lab}x")
    (killed,) = (each for each in ssh_clean.killed_runs() if each["lab"].startswith(f"{result.lab}x"))
    (answer,) = ssh_clean.ask_hosts((killed,))
    assert (answer.removed, answer.unverified) == ((f"namespace {left}",), "")
    assert namespaces(up) == before
    clean.leftovers_of_the_dead()
    assert not any(each["lab"] == killed["lab"] for _, each in clean.notes())
    assert not Path(f"/tmp/tare-{killed['lab']}").exists()


MOON: Final = "{moon: {runtime: kubernetes, network: pod-network, runtime_class: moon}}"


def test_what_cannot_be_is_refused_in_one_sentence_before_anything_is_made(up: Up, tmp_path: Path) -> None:
    student = tmp_path / "student"
    nobody = {"name": "tare-admin", "user": {"token": NOBODY.token}}
    student.write_text(json.dumps({**json.loads(up.kubernetes.kubeconfig.read_text()), "users": [nobody]}))
    before = namespaces(up)
    absent = on(up, registry="registry.invalid/me")
    for number, (cluster, more, said) in enumerate([
        (on(up, kubeconfig="/nowhere"), {}, "no Kubernetes can be used: .*set KUBECONFIG.*get-contexts"),
        (on(up, context="moon"), {}, "no Kubernetes can be used: .*moon"),
        (on(up, kubeconfig=str(student)), {}, 'cannot list resource "nodes".*allow this user to list nodes'),
        (on(up, selector="pool=hpc"), {}, r"has 0 nodes with the labels pool=hpc that pods can use, and 2 are"),
        (on(up), {"placements": "[3x1]"}, r"has 2 nodes that pods can use, and 3 are needed"),
        (on(up), {"placements": "[2x64]"}, "64 cores"),
        (on(up), {"environments": "[bare]"}, "cluster kubernetes makes its pods itself: use runtime: kubernetes"),
        (on(up, namespace=NAMESPACE), {}, f"the namespace {NAMESPACE} exists already, and tare uses only what"),
        (on(up), {"environments": MOON}, 'e0-n0: .*pod rejected: RuntimeClass "moon" not found'),
        (absent, {}, "does not have the image registry.invalid/me/tare/"),
    ]):  # fmt: skip
        keys = {"environments": "[kubernetes]", "placements": "[2x1]", "a_a": "true", "cluster": cluster, **more}
        study = write_study(tmp_path, f"bad{number}", keys.pop("environments"), **keys)
        result = tare("run", study, cwd=tmp_path)
        told = " ".join((result.stdout + result.stderr).split())
        assert result.status not in (0, 3), told
        assert re.search(said, told), (said, told)
        assert "Traceback" not in told
    assert namespaces(up) == before


def watched_pods(up: Up, run: str, count: int) -> list[dict[str, Any]]:
    """Return the pods of a run once so many of them are running."""

    def running() -> list[dict[str, Any]]:
        found = up.kubernetes.api.ask("GET", "/api/v1/pods", query=[("labelSelector", SELECTOR)])
        own = [each for each in found["items"] if each["metadata"]["labels"][manifests.RUN].startswith(f"{run}x")]
        return own if len(own) == count and all(each["status"].get("phase") == "Running" for each in own) else []

    return wait_until(running, f"the pods of {run}")


def is_created(pods: Pods, spec: PodSpec) -> bool:
    """Create a pod if its user is allowed to by now."""
    try:
        pods.create(spec)
    except InfrastructureError:
        return False
    return True


def namespaces(up: Up) -> set[str]:
    """Return the names of the namespaces with tare's mark, whatever their state is."""
    query = [("labelSelector", SELECTOR)]
    found = up.kubernetes.api.ask("GET", "/api/v1/namespaces", query=query)
    return {each["metadata"]["name"] for each in found["items"]}
