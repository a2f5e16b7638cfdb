"""Every registered cluster, runtime, network, MPI and workload goes through the same tests."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tare.clusters
import tare.mpi
import tare.networks
import tare.runtimes
import tare.workloads
from contract.compositions import NODE, is_sentence
from factory_job import job_of
from nodes import make_request
from tare.clusters import CLUSTERS
from tare.errors import InfrastructureError, RefusedError
from tare.model import KubernetesSpec, LabSpec, Placement
from tare.mpi import MPIS
from tare.mpi.launch import Entry, Host
from tare.networks import NETWORKS, Wiring, find
from tare.runtimes import RUNTIMES
from tare.workloads import WORKLOADS

FAMILIES: Mapping[str, tuple[Mapping[str, Any], type]] = {
    "cluster": (CLUSTERS, tare.clusters.Cluster),
    "runtime": (RUNTIMES, tare.runtimes.Runtime),
    "network": (NETWORKS, tare.networks.Network),
    "MPI": (MPIS, tare.mpi.Mpi),
    "workload": (WORKLOADS, tare.workloads.WorkloadPlugin),
}
MEMBERS = [(family, name) for family, (members, _) in FAMILIES.items() for name in members]
PROBED = [(family, name) for family, name in MEMBERS if family != "workload"]


def member(family: str, name: str) -> Any:
    return FAMILIES[family][0][name]


# --- every member -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "name"), MEMBERS)
def test_a_member_has_its_own_name_and_all_that_its_protocol_lists_with_the_same_arguments(
    family: str, name: str
) -> None:
    assert member(family, name).name == name
    assert re.fullmatch(r"[a-z][a-z0-9-]*", name)
    protocol = FAMILIES[family][1]
    plugin = member(family, name)
    listed = {key: value for key, value in vars(protocol).items() if not key.startswith("_")}
    assert listed
    for key, value in listed.items():
        assert hasattr(plugin, key), f"{family} {name} has no {key}"
        if inspect.isfunction(value):
            wanted = [p.name for p in inspect.signature(value).parameters.values() if p.name != "self"]
            assert list(inspect.signature(getattr(plugin, key)).parameters) == wanted
        else:
            assert not callable(getattr(plugin, key))


@pytest.mark.parametrize(("family", "name"), PROBED)
def test_a_probe_changes_nothing_and_says_none_or_what_is_missing(
    family: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TARE_CACHE", "TMPDIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    before = dict(os.environ), os.getcwd(), os.sched_getaffinity(0)
    first, second = member(family, name).probe(), member(family, name).probe()
    assert first == second
    assert first is None or is_sentence(first)
    assert list(tmp_path.iterdir()) == []
    assert (dict(os.environ), os.getcwd(), os.sched_getaffinity(0)) == before


@pytest.mark.parametrize(("family", "name"), [m for m in PROBED if not m[1].startswith("fake")])
def test_on_a_machine_with_nothing_installed_a_probe_still_answers_with_what_installs_it(
    family: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.system.process.shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("tare.networks.wiring.plug.CNI_FOLDERS", ())
    for place in (
        "daemons.etcd.OWN",
        "networks.flannel.OWN",
        "networks.wiring.vswitch.UNPACKED",
        "networks.wiring.bird.UNPACKED",
    ):
        monkeypatch.setattr(f"tare.{place}", Path("/nowhere"))
    monkeypatch.setattr("tare.images.mpi_wheels.FOLDER", Path("/nowhere"))
    monkeypatch.setenv("CNI_PATH", "/nowhere")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    reason = member(family, name).probe()
    # A network that asks for nothing needs nothing, or what its runtime's probe asks for.
    if type(member(family, name)).probe is FAMILIES[family][1].probe:
        assert reason is None
    else:
        assert is_sentence(reason)
        assert any(way in reason for way in ("apt-get install", "tools/", "have an administrator install it"))


@pytest.mark.parametrize("name", [name for name, it in RUNTIMES.items() if not (it.needs_daemon or it.is_fake)])
def test_a_runtime_without_docker_s_daemon_refuses_its_networks_before_anything_is_started(name: str) -> None:
    request = make_request(NODE, wiring=Wiring.DOCKER, packed=Path("/image.sif"))
    with pytest.raises(RefusedError, match="network that Docker makes"), RUNTIMES[name].pod(request):
        pass


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_says_what_of_it_is_rebuilt_and_is_found_as_an_object_of_its_environment_s_own(name: str) -> None:
    assert is_sentence(NETWORKS[name].product)
    assert re.search(r"\b(itself|rebuilt)\b", NETWORKS[name].product)
    first, second = find(name), find(name)
    assert type(first) is type(NETWORKS[name])
    assert first.name == name
    assert len({id(first), id(second), id(NETWORKS[name])}) == 3


def test_an_ordinary_user_is_told_that_a_docker_daemon_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    reason = RUNTIMES["docker"].probe()
    assert reason is not None
    assert "root" in reason


# --- clusters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_a_cluster_gives_every_node_cores_without_making_any(name: str, nodes: int) -> None:
    if CLUSTERS[name].takes_hosts:
        with pytest.raises(RefusedError, match="has no hosts"):
            CLUSTERS[name].topology(LabSpec(nodes=nodes))
        return
    if CLUSTERS[name].makes_pods(LabSpec()):
        with pytest.raises(InfrastructureError, match="no Kubernetes can be used"):
            CLUSTERS[name].topology(LabSpec(nodes=nodes, kubernetes=KubernetesSpec(kubeconfig="/nowhere")))
        return
    topology = CLUSTERS[name].topology(LabSpec(nodes=nodes, cores_per_node=1))
    assert len(topology.nodes) in ({1, nodes} if CLUSTERS[name].is_real else {nodes})
    assert all(len(own.cores) == 1 for own in topology.nodes)


def test_only_the_lab_is_emulated() -> None:
    assert [name for name in CLUSTERS if CLUSTERS[name].emulated] == ["lab"]  # nothing else pretends to be machines


# --- MPIs ---------------------------------------------------------------------------------------------------------


HOSTS = tuple(Host(name=f"n{i}", ranks=2, agent=Entry(argv=("nsenter", "-t", str(i), "--all", "--"))) for i in range(2))


def launched(name: str) -> Any:
    programs, environments = (("app", "a b"),), ({"X": "1"},)
    placement = Placement(ranks_per_node=2)
    head = ("nsenter", "--net=/x", "--")
    return MPIS[name].launch(job_of(HOSTS, placement, head=head, programs=programs, environments=environments))


@pytest.mark.parametrize("name", MPIS)
def test_a_launch_starts_at_the_head_ends_with_the_program_and_has_every_host_and_rank_once(name: str) -> None:
    launch = launched(name)
    argv = launch.argv("/agent")
    assert argv[:3] == ("nsenter", "--net=/x", "--")
    assert argv[-2:] == ("app", "a b")
    assert all(isinstance(token, str) and token for token in argv)
    assert launch.ranks == 4
    assert [host.name for part in launch.contexts for host in part.hosts] == ["n0", "n1"]
    assert launched(name) == launch
    with pytest.raises(AttributeError):
        launch.head = ()


@pytest.mark.parametrize("name", MPIS)
def test_the_version_of_an_mpi_is_one_line(name: str) -> None:
    version = MPIS[name].version()
    assert "\n" not in version
    assert version or MPIS[name].probe() is not None
