"""Pods have what a study needs and no rights beyond it; what a cluster changes in them is named.

It is one file because all sections use the same manifests and the same answers of a cluster.
"""

from __future__ import annotations

import copy
import json
import os
import stat
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node, make_pod
from tare.agent.remote.machine import Interface, this_machine
from tare.clusters import lab_kubernetes
from tare.clusters.pods import cluster_description, manifests, nodes, pod_specs, reasons
from tare.clusters.pods.cluster_description import ServiceView
from tare.clusters.pods.manifests import PodSpec
from tare.clusters.pods.node import shells
from tare.clusters.pods.pod_networks.further import ASKED, FurtherNetwork, attached, for_messages
from tare.clusters.pods.pod_service import PodService, digest_of
from tare.clusters.pods.pod_specs import PodDefaults
from tare.clusters.pods.relay import BEGINS, RANK, rank_of
from tare.errors import InfrastructureError
from tare.images import RECIPES
from tare.images.registry.reference import is_reference
from tare.model import Cell, Environment, KubernetesSpec, LabSpec, Placement, Role, Share
from tare.mpi.launch import Context, Entry, Host, Launch
from tare.networks import find
from tare.runtimes.containers.deployment import Deployment, Files
from tare.runtimes.kubernetes import first_process, group_of
from tare.study import load
from tare.study.feasibility.preflight import misfit
from tare.study.plan import composition
from tare.system.node import Watch
from tare.system.node.cgroups import Group, Hierarchy

PLACE = {"name": "e0-n0", "namespace": "s", "run": "s", "slot": 0, "node": "worker", "node_image": "service"}
SPEC = PodSpec(image="site/app:1", **PLACE)


def pod(**changes: Any) -> dict[str, Any]:
    return manifests.pod(replace(SPEC, **changes))


def test_a_pod_has_no_rights_and_no_token() -> None:
    made = pod()
    spec = made["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert "privileged" not in str(made)
    assert "hostPath" not in str(made)


def test_requests_are_limits_and_a_pod_is_on_the_nodes_network_if_it_asks() -> None:
    ranks, node = pod(cpus=4, memory="8Gi", resources={"rdma/hca": "1"})["spec"]["containers"]
    assert ranks["resources"]["requests"] == {"cpu": "4", "memory": "8Gi", "rdma/hca": "1"}
    assert ranks["resources"]["limits"] == ranks["resources"]["requests"]
    assert node["resources"]["limits"] == node["resources"]["requests"]
    assert pod(host_network=True)["spec"]["hostNetwork"] is True


def test_what_a_webhook_changes_is_named_and_defaults_are_not() -> None:
    asked = pod(cpus=2)
    made = copy.deepcopy(asked)
    made["spec"] |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    made["spec"]["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    for container in made["spec"]["containers"]:
        container |= {"terminationMessagePath": "/dev/termination-log", "resources": container.get("resources", {})}
    assert reasons.differences(asked, made) == ()
    made["spec"]["containers"].insert(0, {"name": "sidecar", "image": "mesh"})
    added = "spec.containers: sidecar (mesh) was added"
    assert reasons.differences(asked, made) == (added,)
    made["spec"]["containers"][1]["resources"]["limits"]["cpu"] = "1"
    made["spec"]["shareProcessNamespace"] = False
    assert reasons.differences(asked, made) == (
        "spec.shareProcessNamespace is False, not True",
        "spec.containers[0].resources.limits.cpu is 1, not 2",
        added,
    )


def test_what_a_cluster_adds_and_ranks_would_feel_is_named() -> None:
    asked = pod(variables=("A=1",))
    made = copy.deepcopy(asked)
    made["spec"]["runtimeClassName"] = "gvisor"
    made["spec"]["securityContext"]["runAsUser"] = 1000
    made["spec"]["initContainers"] = [{"name": "mesh-init", "image": "mesh"}]
    ranks = made["spec"]["containers"][0]
    ranks["resources"] = {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    ranks["env"].append({"name": "HTTP_PROXY", "value": "http://proxy"})
    assert reasons.differences(asked, made) == (
        "spec.runtimeClassName is gvisor, which was not asked for",
        "spec.securityContext.runAsUser is 1000, which was not asked for",
        "spec.initContainers: mesh-init (mesh) was added",
        "spec.containers[0].resources.limits.cpu is 500m, which was not asked for",
        "spec.containers[0].resources.requests.cpu is 100m, which was not asked for",
        "spec.containers[0].env[HTTP_PROXY].name is HTTP_PROXY, which was not asked for",
        "spec.containers[0].env[HTTP_PROXY].value is http://proxy, which was not asked for",
    )


@pytest.mark.parametrize(
    ("asked", "made", "same"),
    [("1.5", "1500m", True), ("64000000", "64M", True), ("2Gi", "2Gi", True), ("2Gi", "2G", False), ("1", "1m", False),
     ("1E3", "1k", True), ("1Ki", "1024", True)],
)  # fmt: skip
def test_an_amount_that_the_server_writes_its_own_way_is_no_difference(asked: str, made: str, same: bool) -> None:
    wanted, found = pod(memory=asked), pod(memory=made)
    assert (reasons.differences(wanted, found) == ()) == same
    named = reasons.differences(pod(variables=(f"A={asked}",)), pod(variables=(f"A={made}",)))
    assert (named == ()) == (asked == made), "what is no amount is compared as it is written"


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"status": {"containerStatuses": [{"name": "ranks", "image": "site/app:1", "state": state}]}}


def ended(reason: str, code: int = 137) -> dict[str, Any]:
    state = {"terminated": {"reason": reason, "exitCode": code}}
    return {"metadata": {"name": "p0"}, "status": {"containerStatuses": [{"name": "ranks", "state": state}]}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (waiting("ErrImageNeverPull"), "the node does not have the image site/app:1, and the pull policy is Never"),
        (waiting("ImagePullBackOff", "no such host."), "the image site/app:1 cannot be pulled: no such host"),
        (waiting("CreateContainerConfigError", "secret x not found"), "container ranks cannot be made: secret x not"),
        (ended("OOMKilled"), "pod p0: container ranks was killed for exceeding its memory limit"),
        (ended("Error", 2), "pod p0: container ranks has ended with status 2"),
        ({"metadata": {"name": "p0"}, "status": {"phase": "Failed", "reason": "Evicted", "message": "low on disk"}},
         "pod p0: the node has evicted the pod: low on disk"),
        ({"metadata": {"name": "p0"}, "status": {"conditions": [
            {"type": "DisruptionTarget", "status": "True", "message": "for p9"}]}},
         "pod p0: a pod of higher priority has taken its place: for p9"),
        ({"metadata": {"name": "p0", "deletionTimestamp": "now"}, "status": {"phase": "Running"}},
         "pod p0 is being removed by somebody else"),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_run_has_a_sentence(found: dict[str, Any], said: str) -> None:
    trouble = reasons.waits_in_vain(found)
    assert trouble
    assert trouble[0].startswith(said)


def test_what_an_unschedulable_pod_needs_is_said() -> None:
    condition = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/2 nodes: 2 Insufficient cpu."}
    for message, said, remedy in (
        (condition["message"], "0/2 nodes: 2 Insufficient cpu", "use fewer ranks a node, or free the nodes"),
        ("node(s) had untolerated taint {node.kubernetes.io/unreachable: }", "untolerated", "a node does not answer"),
        ("node had untolerated taint {x: y}", "untolerated taint", "tolerations"),
    ):
        trouble = reasons.waits_in_vain({"status": {"conditions": [{**condition, "message": message}]}})
        assert trouble
        assert trouble[0].startswith("no node can take the pod: ")
        assert said in trouble[0]
        assert remedy in trouble[1]


def test_a_pod_that_may_still_get_ready_is_waited_for() -> None:
    creating = waiting("ContainerCreating")
    assert reasons.waits_in_vain(creating) is None
    assert not reasons.is_ready(creating)
    event = {"reason": "FailedCreatePodSandBox", "message": "no network"}
    trouble = reasons.waits_in_vain(creating, [event])
    assert trouble
    assert trouble[0] == "the node cannot start the pod: no network"
    running = {"status": {"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}}
    assert reasons.is_ready(running)
    assert reasons.waits_in_vain(running) is None
    hostile = waiting("ErrImagePull", "\x1b[31mred\n")
    trouble = reasons.waits_in_vain(hostile)
    assert trouble
    assert "\x1b" not in trouble[0]


WISH = {ASKED: "hpc/macvlan-fast"}
WISHING = PodSpec(image="app", annotations=WISH, **PLACE)
THREE = PodSpec(image="app", cpus=2, containers=3, **PLACE)
NOTHING: Any = None
DIGEST = "sha256:" + "0123456789abcdef" * 4
NAME = "registry.example/me/app:1"
OWN = Environment(name="own", runtime="kubernetes", network="pod-network", image=NAME)


@pytest.mark.parametrize(
    ("names", "are"),
    [
        ((NAME, f"registry.example:5000/app@{DIGEST}", "localhost/app", "[::1]:5000/a/b", f"app@{DIGEST}"), True),
        (("", "app", "app:1", "me/app", "/srv/app.sif", "./app", "../a.b/c", f"@{DIGEST}", *RECIPES), False),
        ([f"registry.example/{path}" for path in ("", "Me", "a:", "a b")] + ["app@sha256:12"], False),
    ],
)
def test_a_name_with_a_registry_or_a_digest_is_a_reference(names: Sequence[str], are: bool) -> None:
    assert {name: is_reference(name) for name in names} == dict.fromkeys(names, are)


def test_only_pods_of_a_cluster_have_an_image_of_a_registry(tmp_path: Path) -> None:
    assert composition.refuse(OWN, Placement()) is None
    docker = Environment(name="d", runtime="docker", network="bridge", image=NAME)
    reason = f"{NAME} is pulled by the nodes of a cluster alone: name a recipe, or the path of an image"
    assert composition.refuse(docker, Placement()) == reason
    reason = f"a Kubernetes in a lab has no registry to pull {NAME} from: name a recipe"
    assert lab_kubernetes.refuse(LabSpec(), OWN, Placement()) == reason
    assert pod_specs.image_of("registry.example/other", NAME, "tare:ignored") == NAME
    study = tmp_path / "own.yaml"
    study.write_text(
        f"name: own\ncluster: {{kubernetes: {{}}}}\na_a: true\nplacements: [2x1]\n"
        f"environments: {{own: {{runtime: kubernetes, network: pod-network, image: '{NAME}'}}}}\n"
        "workloads: {app: {command: [/bin/true]}}\n"
    )
    read = load(study)
    (environment,), (workload,), placement = read.environments, read.workloads, Placement()
    assert environment.image == NAME
    parts: Any = {"workload": workload, "environment": environment, "placement": placement}
    cell = Cell(key="k", group="g", role=Role.BASELINE, **parts)
    assert misfit(cell, Files(host_prefix=tmp_path, image_tag=NAME)) is None, "/bin/true of this machine says nothing"


@pytest.mark.parametrize("status", [0, 1])
def test_an_image_without_tares_programs_is_told_what_it_needs(status: int, tmp_path: Path) -> None:
    session = SimpleNamespace(pump=lambda *_: status, close=lambda: None)
    gate: Any = SimpleNamespace(start=lambda *_: session)
    service = PodService(node=make_node(), number=0, spec=WISHING, gate=gate, pods=NOTHING, folder=tmp_path)
    lacks = f"the image {NAME} has no /opt/tare/lib/libtare_wall.so"
    with pytest.raises(InfrastructureError, match=lacks) if status else nullcontext() as caught:
        service._find_programs(NAME)
    assert caught is None or "COPY --from=IMAGE /opt/tare /opt/tare" in caught.value.remedy
    ran = f"registry.example/me/app@{DIGEST}"
    statuses = [{"name": "node", "imageID": "s@sha256:1"}, {"name": "ranks", "imageID": ran}]
    assert digest_of({"status": {"containerStatuses": statuses}}) == ran
    assert digest_of({}) == ""


READY = {"type": "Ready", "status": "True"}
FLANNEL = {"flannel.alpha.coreos.com/public-ip": "10.214.0.1", "flannel.alpha.coreos.com/backend-type": "vxlan"}


def node(*, cpu: str = "4", spec: Any = None, ready: bool = True, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n0", "annotations": annotations},
        "spec": spec or {},
        "status": {
            "allocatable": {"cpu": cpu},
            "addresses": [{"type": "Hostname", "address": "n0"}, {"type": "InternalIP", "address": "10.213.0.1"}],
            "conditions": [READY] if ready else [],
            "nodeInfo": {"bootID": "b", "kubeletVersion": "v1", "kernelVersion": "6.1"},
        },
    }


def test_nodes_say_their_cores_and_addresses_and_with_pods_the_network() -> None:
    plain = nodes.read(node(cpu="3900m"))
    assert (plain.cpus, plain.address, plain.data_address, plain.boot_id) == (3, "10.213.0.1", "10.213.0.1", "b")
    assert nodes.read(node(**FLANNEL)).data_address == "10.214.0.1"
    assert nodes.read(node(**{"projectcalico.org/IPv4Address": "10.9.0.4/24"})).data_address == "10.9.0.4"
    tainted = node(spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    settings = KubernetesSpec(pod='{"tolerations": [{"operator": "Exists"}]}')
    assert nodes.read(tainted, pod_specs.tolerated(settings)).unusable == ""
    every = ["10.244.0.5", "10.244.1.7"], ["10.244.0.5", "10.244.0.6"], ["10.244.0.5"], ["192.168.9.1", "10.0.0.1"]
    told = [str(pod_specs.common_network(addresses)) for addresses in every]
    assert told == ["10.244.0.0/23", "10.244.0.4/30", "10.244.0.4/30", "0.0.0.0/0"]
    pod = ServiceView(node="n0", of_node=False, interface="eth0", mtu=1450)
    tunnel = Interface(name="flannel.1", address="10.244.0.0", prefix=32, mtu=1450, kind="vxlan")
    host = ServiceView(node="n0", of_node=True, interface="data0", mtu=1500, others=(tunnel,))
    told = cluster_description.network_of((pod, host))
    assert list(told.values()) == ["eth0 MTU 1450", "over data0 MTU 1500", "through flannel.1 (vxlan)"]
    plain = cluster_description.network_of((ServiceView(node="n0", of_node=True, interface="eth0", mtu=9000),))
    assert list(plain.values()) == ["over eth0 MTU 9000", "without a tunnel on the nodes"]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (node(), ""),
        (node(ready=False), "is not ready"),
        (node(spec={"unschedulable": True}), "is cordoned"),
        (node(spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}), "has the taint gpu (name it in tolerations)"),
        (node(spec={"taints": [{"key": "known", "effect": "NoExecute"}]}), ""),
        (node(spec={"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]}), ""),
    ],
)
def test_a_node_that_no_pod_can_be_on_says_why(made: dict[str, Any], why: str) -> None:
    assert nodes.read(made, {"known"}).unusable == why
    told = nodes.too_few([nodes.read(made, {"known"})], 1, "a=b")
    assert (told is None) == (not why)
    assert told is None or told.endswith(f"with the labels a=b that pods can use, and 1 are needed: n0 {why}")


def order(environment: Environment, placement: Placement) -> Deployment:
    files, nodes = Files(host_prefix=Path("/x"), image_tag="tare:0123456789abcdef"), (make_node(),)
    return Deployment(
        study="s-3", slot=3, environment=environment, placement=placement, nodes=nodes, nic=0, hosts=4, files=files
    )


def pods(settings: KubernetesSpec, placement: Placement, **more: Any) -> tuple[manifests.PodSpec, ...]:
    environment = Environment(name="e", runtime="kubernetes", network="pod-network", image="debian-openmpi", **more)
    made = PodDefaults(site="s", folder=Path("/tmp/tare-s"), namespace="n", settings=settings, node_image="service")
    return made.pods(order(environment, placement), "n0", "worker-7")


def test_a_pod_is_made_as_the_study_says() -> None:
    settings = KubernetesSpec(
        registry="r.example/me", pull_policy="Always", pull_secrets=("key",), resources=("rdma/hca=1",),
        annotations=("k8s.v1.cni.cncf.io/networks=roce",), pod='{"priorityClassName": "high"}',
    )  # fmt: skip
    (spec,) = pods(settings, Placement(ranks_per_node=2), env=("A=b",), shm_size=64 << 20)
    pod = manifests.pod(spec)
    assert pod["spec"]["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "67108864"}
    ranks, service = pod["spec"]["containers"]
    assert (pod["metadata"]["name"], pod["spec"]["nodeSelector"]) == ("e3-n0", {"kubernetes.io/hostname": "worker-7"})
    assert pod["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": "roce"}
    assert (pod["spec"]["priorityClassName"], pod["spec"]["imagePullSecrets"]) == ("high", [{"name": "key"}])
    assert (ranks["image"], ranks["imagePullPolicy"]) == ("r.example/me/tare/debian-openmpi:0123456789abcdef", "Always")
    assert ranks["resources"] == {"requests": {"rdma/hca": "1"}, "limits": {"rdma/hca": "1"}}
    assert ranks["env"] == [{"name": "A", "value": "b"}]
    assert "resources" not in service, "the pod asks for no cores"
    assert "hostNetwork" not in pod["spec"]
    assert "runtimeClassName" not in pod["spec"]
    (spec,) = pods(KubernetesSpec(), Placement(), runtime_class="host-gw")
    assert manifests.pod(spec)["spec"]["runtimeClassName"] == "host-gw"


def test_exclusive_pods_ask_for_the_whole_cores_of_their_ranks_and_for_no_more() -> None:
    shared = Placement(ranks_per_node=4, containers_per_node=2, share=Share.NONE, threads_per_rank=2)
    both = pods(KubernetesSpec(exclusive=True), shared)
    assert [spec.name for spec in both] == ["e3-n0c0", "e3-n0c1"]
    for spec in both:
        ranks, service = manifests.pod(spec)["spec"]["containers"]
        assert ranks["resources"]["requests"] == ranks["resources"]["limits"] == {"cpu": "4"}
        assert service["resources"]["requests"] == service["resources"]["limits"]
    (limited,) = pods(KubernetesSpec(), Placement(memory_per_container=1 << 30, cpus_per_container=0.5))
    wanted = {"cpu": "0.5", "memory": str(1 << 30)}
    assert manifests.pod(limited)["spec"]["containers"][0]["resources"] == {"requests": wanted, "limits": wanted}


PODS = Environment(name="pods", runtime="kubernetes", network="pod-network", mpi="openmpi", image="debian-openmpi")
AGENT = """#!/bin/sh
echo "$1 $2" >> "${0%/*}/asked"
exec /bin/sh -c "$(cat "${0%/*}/begins")" "$3"
"""
"""Stands for the agent and the head: becomes the rank at once."""
SHOWS = 'cat; printf "%s|" "$@"; echo error >&2; env | grep ^tare_; printf %s "$ODD"; exit 3'
WORDS = ["a b", "it's", "line\nbreak", '$HOME`"\\n', "%s", ""]


def test_every_container_of_ranks_has_the_same_and_shares_the_pod() -> None:
    made = manifests.pod(THREE)["spec"]
    assert made["shareProcessNamespace"] is True
    *ranks, node = made["containers"]
    assert [each["name"] for each in ranks] == list(THREE.of_ranks) == ["ranks", "ranks-1", "ranks-2"]
    assert node["name"] == "node"
    assert [each["command"][-1] for each in ranks] == ["tare-ranks", "tare-ranks-1", "tare-ranks-2"]
    for each in ranks:
        same = {name: value for name, value in each.items() if name not in ("name", "command")}
        assert same == {name: value for name, value in ranks[0].items() if name not in ("name", "command")}
        assert {"name": "shm", "mountPath": "/dev/shm"} in each["volumeMounts"]
        assert each["resources"]["limits"] == {"cpu": "2"}


@pytest.mark.parametrize(("share", "containers", "cpus"), [(Share.POD, 2, 2.0), (Share.NONE, 1, 2.0)])
def test_a_container_asks_for_the_cores_of_its_own_ranks(share: Share, containers: int, cpus: float) -> None:
    placement = Placement(ranks_per_node=4, containers_per_node=2, share=share)
    assert pod_specs.containers_of(PODS, placement) == containers
    assert pod_specs.asked(PODS, placement, exclusive=True) == (cpus, "")


def test_further_containers_have_shells_and_ranks_enter_by_the_wrapper() -> None:
    placement = Placement(ranks_per_node=6, containers_per_node=3)
    assert shells(THREE, placement) == {"e0-n0": 2, "e0-n0/ranks-1": 2, "e0-n0/ranks-2": 2}
    assert rank_of(["--rank", "2", "/tmp/tare-s/rank.7"]) == (2, ["/bin/sh", "-c", BEGINS, "/tmp/tare-s/rank.7"])
    inside = Host(name="n0", ranks=2, enter=(Entry(), Entry(argv=("enter", "ranks-1"), carry=True)))
    contexts = (Context(hosts=(inside,), program=("app",)),)
    launch = Launch(head=(), launcher=("mpirun",), hosts=(inside,), contexts=contexts)
    assert launch.argv("/run/agent") == ("mpirun", "/run/agent", "--rank", "app")
    own = replace(launch, wrapper=("/tmp/tare-s/rank", "1"))
    assert own.argv("/run/agent") == ("mpirun", "/tmp/tare-s/rank", "1", "app")


@pytest.mark.parametrize("words", [[], ["-x", "n1", "orted"], ["--rank", "one", "f"], ["--rank", "1"]])
def test_what_a_launcher_asks_is_not_taken_for_a_rank(words: list[str]) -> None:
    assert rank_of(words) is None


def run_wrapper(folder: Path, agent: str, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    for name, text in (("rank", RANK), ("agent", agent), ("begins", BEGINS)):
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    words, env = [folder / "rank", *argv], {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(words, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"])
@pytest.mark.parametrize(("rank", "asked"), [(0, ""), (1, ""), (2, "--rank 1\n"), (5, "--rank 2\n")])
def test_the_wrapper_behaves_as_its_rank_anywhere(rank: int, asked: str, variable: str, tmp_path: Path) -> None:
    program = ("2", "/bin/sh", "-c", SHOWS, "x", *WORDS)
    ended = run_wrapper(tmp_path, AGENT, *program, ODD="q'\n\"x", **{variable: str(rank)})
    said = "".join(f"{word}|" for word in WORDS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, f"{said}q'\n\"x", "error\n")
    assert ((tmp_path / "asked").read_text() if asked else "") == asked
    assert not list(tmp_path.glob("rank.*")), "files of a rank are left"
    if rank:
        ended = run_wrapper(tmp_path, "#!/bin/sh\nexit 125\n", "1", "true", PMI_LOCAL_RANK="1")
        assert ended.returncode == 125, "its rank cannot be started"


def test_a_container_is_found_by_its_first_process_and_its_cgroup_where_it_is_mounted(tmp_path: Path) -> None:
    for pid, words in ((5, "sh\0-c\0x\0tare-ranks\0"), (9, "sh\0-c\0x\0tare-ranks-1\0"), (11, "tare-ranks-1\0app\0")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text(words)
    assert [first_process(number, tmp_path) for number in range(3)] == [5, 9, None]
    own = tmp_path / "7" / "root" / "sys/fs/cgroup/memory"
    own.mkdir(parents=True)
    (own / "cgroup.procs").write_text("")
    (own / "memory.stat").write_text("cache 1\n")
    line = "30 29 0:27 / /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
    (tmp_path / "7" / "mountinfo").write_text(line)
    found = group_of(7, tmp_path)
    memory = Hierarchy(mountpoint=own, version=1, controllers=("memory",), below="")
    assert found == Group(path="", hierarchies=(memory,))
    assert (found.folders[0] / "memory.stat").exists()


STATUS = [
    {"name": "cbr0", "interface": "eth0", "ips": ["10.244.1.7"], "default": True, "dns": {}, "gateway": ["10.244.1.1"]},
    {"name": "hpc/v6-only", "interface": "net1", "ips": ["fd00::7"], "mac": "5e:01:02:03:04:06", "dns": {}},
    {"name": "hpc/macvlan-fast", "interface": "net2", "ips": ["fd00::8", "192.168.50.7"], "mac": "5e:01", "dns": {}},
    {"name": "hpc/storage", "interface": "net3", "ips": ["192.168.60.7"], "mac": "5e:02", "dns": {}},
]  # fmt: skip
"""What Multus 4 writes into a pod's annotation, as its documentation shows it."""
FAST = FurtherNetwork(name="hpc/macvlan-fast", interface="net2", address="192.168.50.7")
STORAGE = FurtherNetwork(name="hpc/storage", interface="net3", address="192.168.60.7")


def attached_pod(status: object = STATUS, name: str = "k8s.v1.cni.cncf.io/network-status") -> dict[str, Any]:
    text = status if isinstance(status, str) else json.dumps(status)
    return {"metadata": {"name": "e0-n0", "annotations": {**WISH, name: text}}, "status": {"podIP": "10.244.1.7"}}


def test_a_pod_asks_for_its_network_and_gets_those_with_an_address() -> None:
    golden = Path(__file__).parents[3] / "golden" / "kubernetes" / "pod-with-further-network.json"
    assert json.dumps(manifests.pod(WISHING), indent=2) + "\n" == golden.read_text()
    older = attached_pod(name="k8s.v1.cni.cncf.io/networks-status")
    assert attached(attached_pod()) == attached(older) == (FAST, STORAGE)
    with pytest.raises(InfrastructureError, match="pod e0-n0 did not get the network hpc/macvlan-fast") as caught:
        for_messages(attached_pod([STATUS[0]]), WISH, "10.0.0.0/8")
    assert "Multus" in caught.value.remedy


@pytest.mark.parametrize(("subnet", "found"), [("10.214.0.2", FAST), ("192.168.60.0/24", STORAGE)])
def test_messages_take_the_first_network_or_that_of_the_subnet(subnet: str, found: FurtherNetwork) -> None:
    assert for_messages(attached_pod(), WISH, subnet) == found
    assert for_messages(attached_pod(), {"other": "x"}, subnet) is None, "nobody asked for a network"


@pytest.mark.parametrize(
    "none", ["", "{", "{}", "[1]", "[]", '[{"default": true, "ips": ["10.0.0.1"]}]', '[{"ips": 7}]', '[{"ips": [7]}]']
)
def test_a_status_of_another_form_names_no_network(none: str) -> None:
    assert attached(attached_pod(none)) == ()


def test_the_further_interface_is_the_pods_nic_and_is_watched(tmp_path: Path) -> None:
    eth0 = Interface(name="eth0", address="10.244.1.7", prefix=24, mtu=1450)
    net2 = Interface(name="net2", address="192.168.50.7", prefix=24, mtu=9000)
    machine = replace(this_machine(), hostname="e0-n0", boot_id="b", cores=(0, 1), interfaces=(eth0, net2))
    nothing: Any = {"number": 0, "gate": None, "pods": None, "folder": tmp_path}
    service = PodService(node=make_node(cores=(0,)), spec=WISHING, **nothing)
    inner = service._inner("n0", machine, service._address_of(attached_pod(), "10.214.0.2"))
    (nic,) = inner.nics
    assert (nic.name, nic.address, nic.prefix, nic.mtu) == ("net2", "192.168.50.7", 24, 9000)
    assert not service.takes_cluster_network
    assert service.facts == {"further network": "hpc/macvlan-fast"}
    with find("pod-network").attach(make_pod(inner), nic) as endpoint:
        assert endpoint.watches == (Watch(pid=0, interface="net2", role="pod's interface"),)
    plain = PodService(node=make_node(), spec=replace(WISHING, annotations={}), **nothing)
    assert plain._address_of(attached_pod(), "10.214.0.2") == "10.244.1.7"
    assert plain.takes_cluster_network
