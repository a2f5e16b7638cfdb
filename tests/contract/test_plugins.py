"""Every registered cluster, runtime, network, MPI and workload goes through the same tests."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tare.cluster
import tare.mpi
import tare.networks
import tare.runtimes
import tare.workloads
from tare import environment
from tare.cgroups import Group
from tare.cluster import CLUSTERS
from tare.launch import Entry, Host
from tare.model import Caches, Environment, KernelSpec, LabSpec, MetricKind, Placement, Share, Sides, Workload
from tare.mpi import MPIS, MpiWiring
from tare.networks import NETWORKS, Wiring, find
from tare.node import Nic, Node, Pod
from tare.plan import expand
from tare.runtimes import RUNTIMES, PodRequest
from tare.runtimes.docker import join_config, run_options
from tare.study import KNOWN
from tare.workloads import WORKLOADS, plugin_of
from tare.workloads.output import Began, OutputError
from unit.adapters import ExampleAdapter

FAMILIES: Mapping[str, tuple[Mapping[str, Any], type]] = {
    "cluster": (CLUSTERS, tare.cluster.Cluster),
    "runtime": (RUNTIMES, tare.runtimes.Runtime),
    "network": (NETWORKS, tare.networks.Network),
    "MPI": (MPIS, tare.mpi.Mpi),
    "workload": (WORKLOADS, tare.workloads.WorkloadPlugin),
}
MEMBERS = [(family, name) for family, (members, _) in FAMILIES.items() for name in members]
PROBED = [(family, name) for family, name in MEMBERS if family != "workload"]

WIRED = ("host", "bridge", "direct", "macvlan", "ipvlan-l2", "ipvlan-l3", "ovs", "weave")
"""Networks that every runtime can have, also on two nodes. A new one of these adds its name here."""
SUPPORTED = {(runtime, network) for runtime in RUNTIMES if runtime != "fake" for network in WIRED} | {
    ("docker", "overlay"), ("fake", "fake"), ("fake", "fake-slow"),
}  # fmt: skip
SUPPORTED |= {("docker", "overlay-etcd")} | {
    (runtime, network)
    for runtime in RUNTIMES
    if runtime != "fake"
    for network in ("flannel", "flannel-host-gw", "flannel-udp", "canal", "calico", "calico-ipip", "calico-ipip-cross")
}
"""What can run on two nodes. A new plug-in adds its pairs here; every other pair must be refused with its reason."""
ONE_NODE = {("docker", "docker-default")} | {
    (runtime, network) for runtime in RUNTIMES if runtime != "fake" for network in ("pasta", "slirp4netns")
}
PAIRS = [(runtime, network) for runtime in RUNTIMES for network in NETWORKS]

NODE = Node(
    name="n0",
    index=0,
    cores=(2, 3),
    control_address="10.213.0.1",
    nics=(Nic(name="data0", address="10.214.0.1", prefix=24),),
    pid=0,
    group=Group(path="x/n0", hierarchies=()),
    boot_id="b0",
)
MICRO = Workload(
    name="micro",
    kernels=(
        KernelSpec(kernel="latency", message_bytes=8),
        KernelSpec(kernel="bw", message_bytes=1 << 20),
        KernelSpec(kernel="barrier"),
        KernelSpec(kernel="spacing", message_bytes=8, rate_hz=1e4),
    ),
)
APP = Workload(name="app", command=("/home/u/app", "--size", "two words"))
EXAMPLES = {
    "kernels": MICRO,
    "command": APP,
    "startup": Workload(name="start", startup=Caches.WARM),
    "miniapp": Workload(name="cg", miniapp="npb-cg:class=S"),
    "program": Workload(name="theirs", program="example", arguments=("-n", "3")),
}


@pytest.fixture(autouse=True)
def example_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.workloads.program.PROGRAMS", {"example": ExampleAdapter()})


def member(family: str, name: str) -> Any:
    return FAMILIES[family][0][name]


def is_sentence(text: str) -> bool:
    """Tell whether a text is one line that a user can read: some words, no traceback, no Python value."""
    return len(text.split()) >= 4 and "\n" not in text and "Traceback" not in text and not re.search(r"[<{]\w+ ", text)


def composed(runtime: str, network: str, **more: Any) -> Environment:
    mpi = "fake" if runtime == "fake" else "openmpi"
    image = "debian-openmpi" if RUNTIMES[runtime].needs_image else ""
    return Environment(name="e", runtime=runtime, network=network, mpi=mpi, image=image, **more)


# --- every member -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "name"), MEMBERS)
def test_a_member_is_registered_under_its_own_name(family: str, name: str) -> None:
    assert member(family, name).name == name
    assert re.fullmatch(r"[a-z][a-z0-9-]*", name)


@pytest.mark.parametrize(("family", "name"), MEMBERS)
def test_a_member_has_all_that_its_protocol_lists_and_takes_the_same_arguments(family: str, name: str) -> None:
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
    monkeypatch.setattr("tare.process.shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("tare.networks.plug.CNI_FOLDERS", ())
    monkeypatch.setattr("tare.etcd.OWN", Path("/nowhere"))
    monkeypatch.setattr("tare.networks.flannel.OWN", Path("/nowhere"))
    monkeypatch.setattr("tare.networks.vswitch.UNPACKED", Path("/nowhere"))
    monkeypatch.setattr("tare.wheels.FOLDER", Path("/nowhere"))
    monkeypatch.setattr("tare.networks.bird.UNPACKED", Path("/nowhere"))
    monkeypatch.setenv("CNI_PATH", "/nowhere")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    reason = member(family, name).probe()
    if (family, name) in {
        ("runtime", "bare"),
        ("network", "host"),
        ("network", "docker-default"),
        ("network", "overlay"),
    }:  # they need nothing, or what their runtime's probe asks for
        assert reason is None
    else:
        assert is_sentence(reason)
        assert "apt-get install" in reason or "tools/" in reason


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_says_what_of_it_is_the_product_itself_and_what_is_rebuilt(name: str) -> None:
    assert is_sentence(NETWORKS[name].product)
    assert re.search(r"\b(itself|rebuilt)\b", NETWORKS[name].product)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_found_as_an_object_of_its_environment_s_own(name: str) -> None:
    first, second = find(name), find(name)
    assert type(first) is type(NETWORKS[name])
    assert first.name == name
    assert len({id(first), id(second), id(NETWORKS[name])}) == 3


def test_an_ordinary_user_is_told_that_a_docker_daemon_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    reason = RUNTIMES["docker"].probe()
    assert reason is not None
    assert "root" in reason


def test_a_study_knows_every_real_plugin() -> None:
    assert {n for n in RUNTIMES if n != "fake"} <= set(KNOWN.runtimes)
    assert {n for n in NETWORKS if not n.startswith("fake")} == {n for n in KNOWN.networks if not n.startswith("fake")}
    assert {n for n in MPIS if n != "fake"} == {n for n in KNOWN.mpis if n != "fake"}
    assert {n for n in CLUSTERS if n != "fake"} == {n for n in KNOWN.clusters if n != "fake"}
    assert {n for n in RUNTIMES if not RUNTIMES[n].needs_image} == set(KNOWN.imageless)


# --- runtime x network --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("runtime", "network"), PAIRS)
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_pair_is_supported_or_refused_with_a_reason(runtime: str, network: str, nodes: int) -> None:
    reason = environment.refuse(composed(runtime, network), Placement(nodes=nodes))
    overlays = {("docker", "overlay"), ("docker", "overlay-etcd")}
    wanted = SUPPORTED - overlays | ONE_NODE if nodes == 1 else SUPPORTED
    if (runtime, network) in wanted:
        assert reason is None
    else:
        assert reason is not None
        assert is_sentence(reason)


@pytest.mark.parametrize(("runtime", "network"), PAIRS)
@pytest.mark.parametrize("sides", [Sides.SENDER, Sides.RECEIVER])
def test_one_side_only_needs_a_network_that_reaches_outside(runtime: str, network: str, sides: Sides) -> None:
    wanted = composed(runtime, network, sides=sides)
    reason = environment.refuse(wanted, Placement())
    if (runtime, network) in SUPPORTED and NETWORKS[network].reaches_outside:
        assert reason is None
    else:
        assert reason is not None
        assert is_sentence(reason)


@pytest.mark.parametrize(("runtime", "network"), sorted(SUPPORTED))
def test_several_containers_share_a_pod_on_every_network(runtime: str, network: str) -> None:
    placement = Placement(ranks_per_node=2, containers_per_node=2)
    assert environment.refuse(composed(runtime, network), placement) is None


@pytest.mark.parametrize(("runtime", "network"), sorted(SUPPORTED))
def test_a_pod_each_needs_a_network_that_has_an_address_for_each(runtime: str, network: str) -> None:
    placement = Placement(ranks_per_node=2, containers_per_node=2, share=Share.NONE)
    reason = environment.refuse(composed(runtime, network), placement)
    plugin = RUNTIMES[runtime]
    if not plugin.makes_containers or (NETWORKS[network].pods_share_nic and plugin.pods_are_hosts):
        assert reason is None
    else:
        assert reason is not None
        assert is_sentence(reason)


def test_one_side_only_has_one_container_a_node() -> None:
    wanted = composed("docker", "bridge", sides=Sides.SENDER)
    reason = environment.refuse(wanted, Placement(ranks_per_node=2, containers_per_node=2))
    assert reason is not None
    assert is_sentence(reason)


def test_a_container_that_joins_a_pod_is_not_privileged_and_shares_what_mpi_needs() -> None:
    pod = Pod(
        name="p",
        node=NODE,
        runtime="docker",
        pid=7,
        enter=(),
        group=Group(path="x", hierarchies=()),
        container="tare-p",
    )
    request = PodRequest(
        name="tare-p", study="s", node=NODE, wiring=Wiring.OWN, image_tag="tare:x", shown=("/home/u",), session="/run/t"
    )
    config = join_config(pod, request, (3,))
    host = config["HostConfig"]
    assert set(config) == {"Image", "Cmd", "Labels", "HostConfig"}
    assert set(host) == {"NetworkMode", "IpcMode", "PidMode", "CpusetCpus", "Binds"}, "no right is asked for"
    assert {host["NetworkMode"], host["IpcMode"], host["PidMode"]} == {"container:tare-p"}
    assert host["CpusetCpus"] == "3"
    assert host["Binds"] == ["/home/u:/home/u:ro", "/run/t:/run/t"]


def test_shared_memory_between_nodes_is_refused_and_within_one_is_not() -> None:
    wanted = composed("bare", "host", transport="shm")
    reason = environment.refuse(wanted, Placement(nodes=2))
    assert reason is not None
    assert "tcp" in reason
    assert environment.refuse(wanted, Placement(nodes=1, ranks_per_node=2)) is None


def test_a_fake_part_is_refused_beside_a_real_one() -> None:
    for runtime, network, mpi in [("fake", "host", "fake"), ("bare", "fake", "openmpi"), ("fake", "fake", "openmpi")]:
        wanted = Environment(name="e", runtime=runtime, network=network, mpi=mpi)
        assert environment.refuse(wanted, Placement())


@pytest.mark.parametrize(("runtime", "network"), sorted(SUPPORTED))
def test_a_supported_pair_has_a_kind_of_wiring_that_its_runtime_can_make(runtime: str, network: str) -> None:
    if NETWORKS[network].wiring is Wiring.DOCKER:
        assert RUNTIMES[runtime].needs_daemon
    else:
        assert NETWORKS[network].wiring in {Wiring.NODE, Wiring.OWN}


@pytest.mark.parametrize(
    "network", [network for runtime, network in sorted(SUPPORTED | ONE_NODE) if runtime == "docker"]
)
@pytest.mark.parametrize("shown", [(), ("/home/u", "/opt/x")])
def test_no_container_of_docker_is_privileged_or_shares_more_than_is_measured(
    network: str, shown: tuple[str, ...]
) -> None:
    options = run_options(
        PodRequest(
            name="tare-s-n0",
            study="s",
            node=NODE,
            wiring=NETWORKS[network].wiring,
            image_tag="tare:x",
            network_options=NETWORKS[network].container_options(NODE, "s"),
            shown=shown,
        )
    )
    for forbidden in ("--privileged", "--cap-add", "--security-opt", "--device", "--pid=host", "--userns=host"):
        assert not any(option.startswith(forbidden) for option in options)
    assert options.count("--network") == 1
    assert options[options.index("--cpuset-cpus") + 1] == "2,3"
    assert options[options.index("--label") + 1] == "tare.study=s"
    assert options[-3:] == ("tare:x", "sleep", "infinity")
    assert [o for o in options if o.startswith("--volume")] == [f"--volume={p}:{p}:ro" for p in shown]


def test_environments_that_own_a_nic_get_one_each_and_the_others_share_the_first() -> None:
    pairs = [("bare", "host"), ("docker", "bridge"), ("docker", "overlay"), ("bare", "direct"), ("docker", "macvlan")]
    wanted = [Environment(name=f"{r}+{n}", runtime=r, network=n) for r, n in pairs]
    wanted.append(Environment(name="one side", runtime="docker", network="host", sides=Sides.SENDER))
    there = Placement()
    slots = {e.name: slot for (e, _), slot in environment.nic_slots((e, there) for e in wanted).items()}
    owners = [e.name for e in wanted if NETWORKS[e.network].owns_nic or e.sides is not Sides.BOTH]
    assert sorted(slots[name] for name in owners) == list(range(1, len(owners) + 1))
    assert {slots[e.name] for e in wanted if e.name not in owners} == {0}


# --- clusters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_a_cluster_gives_every_node_cores_without_making_any(name: str, nodes: int) -> None:
    topology = CLUSTERS[name].topology(LabSpec(nodes=nodes, cores_per_node=1))
    assert len(topology.nodes) == nodes
    assert all(len(own.cores) == 1 for own in topology.nodes)


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_says_whether_it_is_emulated(name: str) -> None:
    assert CLUSTERS[name].emulated is True  # ssh, slurm and kubernetes, when they come, are not: extend this test


# --- MPIs ---------------------------------------------------------------------------------------------------------


HOSTS = tuple(Host(name=f"n{i}", ranks=2, agent=Entry(argv=("nsenter", "-t", str(i), "--all", "--"))) for i in range(2))
WIRING = MpiWiring(control_subnet="10.213.0.0/16", data_subnet="10.214.0.0/24")


def launched(name: str, hosts: tuple[Host, ...] = HOSTS, placement: Placement | None = None) -> Any:
    return MPIS[name].launch(
        head=("nsenter", "--net=/x", "--"),
        hosts=hosts,
        placement=placement or Placement(ranks_per_node=2),
        wiring=WIRING,
        programs=(("app", "a b"),) * len(hosts),
        environments=({"X": "1"},) * len(hosts),
    )


@pytest.mark.parametrize("name", MPIS)
def test_a_launch_starts_at_the_head_and_ends_with_the_program(name: str) -> None:
    argv = launched(name).argv("/agent")
    assert argv[:3] == ("nsenter", "--net=/x", "--")
    assert argv[-2:] == ("app", "a b")
    assert all(isinstance(token, str) and token for token in argv)


@pytest.mark.parametrize("name", MPIS)
def test_a_launch_has_every_host_and_rank_once(name: str) -> None:
    launch = launched(name)
    assert launch.ranks == 4
    assert [host.name for part in launch.contexts for host in part.hosts] == ["n0", "n1"]


@pytest.mark.parametrize("name", MPIS)
def test_making_a_launch_twice_gives_the_same_and_it_cannot_be_changed(name: str) -> None:
    assert launched(name) == launched(name)
    with pytest.raises(AttributeError):
        launched(name).head = ()


@pytest.mark.parametrize("name", MPIS)
def test_the_version_of_an_mpi_is_one_line(name: str) -> None:
    version = MPIS[name].version()
    assert "\n" not in version
    assert version or MPIS[name].probe() is not None


# --- workloads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_declares_its_timer_its_synchronisation_and_its_reduction(name: str) -> None:
    for declared in ("timer", "synchronisation", "reduction"):
        text = getattr(WORKLOADS[name], declared)
        assert isinstance(text, str)
        assert text.strip()


def test_every_workload_plugin_has_an_example_here() -> None:
    assert set(EXAMPLES) == set(WORKLOADS)
    assert {name: plugin_of(workload).name for name, workload in EXAMPLES.items()} == {n: n for n in EXAMPLES}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_metrics_of_a_workload_are_known_before_it_runs_and_distinct(name: str) -> None:
    infos = WORKLOADS[name].metrics(EXAMPLES[name], Placement())
    assert infos
    assert len({info.key for info in infos}) == len(infos)
    for info in infos:
        assert info.label
        assert info.statistic
        assert info.group == EXAMPLES[name].name
        assert (info.done_per_sample > 0) == (info.kind is MetricKind.RATE)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_says_before_it_runs_what_it_needs_and_how_long_it_takes(name: str) -> None:
    plugin, workload = WORKLOADS[name], EXAMPLES[name]
    for placement in (Placement(), Placement(nodes=3)):
        reason = plugin.refuse(workload, placement)
        assert reason is None or is_sentence(reason)
    assert plugin.refuse(workload, Placement()) is None
    assert plugin.memory_bytes(workload, Placement()) >= 0
    assert plugin.expected_s(workload, Placement()) >= 0


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("prefix", ["/opt/tare", "/a/cache"])
def test_the_argv_of_a_workload_is_pure_tokens_under_the_prefix_of_its_place(name: str, prefix: str) -> None:
    plugin, workload = WORKLOADS[name], EXAMPLES[name]
    argv = plugin.argv(workload, Path(prefix))
    assert argv == plugin.argv(workload, Path(prefix))
    assert all(isinstance(token, str) for token in argv)
    ours = [*argv, *plugin.environment(workload, Path(prefix)).values()]
    assert any(token.startswith(prefix) for token in ours)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(
    "said", ["", "hello\n", "@tare {}\n", "@tare 5\n", "@tare null\n", "@tare []\n", '@tare {"type']
)
def test_output_that_is_not_a_launch_of_the_workload_is_never_a_result(name: str, said: str) -> None:
    with pytest.raises(OutputError):
        WORKLOADS[name].parse(EXAMPLES[name], said, Began(launched_s=0.0, ended_s=1.0, pods_s=0.1))


def test_a_cell_that_cannot_run_stays_in_the_plan_with_its_reason() -> None:
    study_environments = tuple(
        Environment(name=f"{r}+{n}", runtime=r, network=n) for r, n in [("bare", "host"), ("bare", "overlay")]
    )
    from tare.model import Study

    study = Study(
        name="s",
        cluster="lab",
        lab=LabSpec(),
        baseline="bare+host",
        environments=study_environments,
        placements=(Placement(),),
        workloads=(MICRO,),
    )
    plan = expand(study, environment.refuse)
    (key,) = plan.unavailable
    assert key.endswith("bare+overlay")
    assert "Docker" in plan.unavailable[key]
