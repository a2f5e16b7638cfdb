"""Limits are told to runtimes in their words or written into cgroups of ours, and read back from either version."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes import make_node, make_pod, make_request
from tare.agent import upkeep
from tare.agent.left_by_launch import LeftByLaunches
from tare.agent.protocol import DescribedPods
from tare.errors import InfrastructureError
from tare.model import Environment, Placement, RankPlace
from tare.run.deploy.hosts import Deployed
from tare.run.trial import compared
from tare.runtimes import PodRequest
from tare.runtimes.containers import held_namespaces
from tare.runtimes.docker import join_config
from tare.runtimes.docker import run_options as docker_options
from tare.runtimes.podman import join_options
from tare.runtimes.podman import run_options as podman_options
from tare.system.node import Container, Endpoint, Node, Pod, limits
from tare.system.node.cgroups import MARK, Group, Hierarchy
from tare.system.node.limits import Limits, limits_of
from tare.system.node.surroundings import NodeHas

MIB = 2**20
V1 = {
    "memory": {
        "memory.limit_in_bytes": str(2**63 - 4096),
        "memory.memsw.limit_in_bytes": str(2**63 - 4096),
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0",
    },
    "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"},
    "cpuset": {"cpuset.cpus": "0-1", "cpuset.mems": "0"},
    "pids": {"pids.max": "max"},
}
V2 = {
    "memory.max": "max", "memory.swap.max": "max", "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0",
    "cpu.max": "max 100000", "cpuset.cpus": "0-1", "pids.max": "max",
}  # fmt: skip


@pytest.fixture(params=[1, 2])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Group:
    """Return a group whose files are there, as the kernel makes them, in either version."""
    if request.param == 2:
        made = Group(path="lab/n0/c0", hierarchies=(Hierarchy(mountpoint=tmp_path, version=2),))
        _fill(made.folders[0], V2)
        return made
    there = tuple(Hierarchy(mountpoint=tmp_path / name, version=1, controllers=(name,)) for name in V1)
    made = Group(path="lab/n0/c0", hierarchies=there)
    for folder, files in zip(made.folders, V1.values(), strict=True):
        _fill(folder, files)
    return made


def _fill(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def killed(group: Group, times: int) -> None:
    """Write what the kernel does when it has killed processes of a group."""
    for folder in group.folders:
        for name in ("memory.oom_control", "memory.events"):
            if (folder / name).exists():
                (folder / name).write_text(f"oom_kill {times}\n")


def test_a_placement_that_limits_nothing_has_no_limits_and_what_makes_no_containers_gets_a_node_s() -> None:
    assert limits_of(Placement()) is None
    two = Placement(ranks_per_node=2, containers_per_node=2, memory_per_container=64 * MIB, cpus_per_container=0.3)
    assert limits_of(two, containers=2) == Limits(memory_bytes=128 * MIB, cpus=0.6)
    assert limits_of(replace(two, cpus_per_container=1.0)) == Limits(memory_bytes=64 * MIB), "cores are enough"


NODE = make_node(cores=(0, 1))
POD = make_pod(NODE, runtime="docker", container="tare-s-n0")


def request(wanted: Limits | None) -> PodRequest:
    return make_request(NODE, limits=wanted)


MEMORY = ("--memory", str(64 * MIB), "--memory-swap", str(64 * MIB))


@pytest.mark.parametrize(
    ("wanted", "options", "config"),
    [
        (None, (), {}),
        (Limits(), (), {}),
        (Limits(memory_bytes=64 * MIB), MEMORY, {"Memory": 64 * MIB, "MemorySwap": 64 * MIB}),
        (Limits(cpus=0.5), ("--cpus", "0.5"), {"NanoCpus": 500_000_000}),
        (Limits(memory_bytes=64 * MIB, cpus=1.5), (*MEMORY, "--cpus", "1.5"),
         {"Memory": 64 * MIB, "MemorySwap": 64 * MIB, "NanoCpus": 1_500_000_000}),
    ],
)  # fmt: skip
def test_docker_and_podman_are_told(wanted: Limits | None, options: tuple[str, ...], config: dict[str, int]) -> None:
    asked = request(wanted)
    told = (docker_options(asked), podman_options(asked, network="host"), join_options(POD, asked, "c", (0,)))
    names = ("--memory", "--memory-swap", "--cpus")
    for argv in told:
        found = tuple(word for i, word in enumerate(argv) if word in names or argv[i - 1] in names)
        assert found == options
        assert argv.index("sleep") > max((argv.index(word) for word in found), default=0)
    host = join_config(POD, asked, (0,))["HostConfig"]
    assert {name: host[name] for name in ("Memory", "MemorySwap", "NanoCpus") if name in host} == config


def test_a_new_group_is_held_to_nothing_and_its_limits_are_written_and_stated(group: Group) -> None:
    assert (limits.memory_limit(group), limits.cpu_limit(group), limits.memory_kills(group)) == (0, 0.0, 0)
    assert limits.stated(group) == "cores=2"
    limits.hold(group, Limits(memory_bytes=64 * MIB, cpus=0.5))
    assert limits.stated(group) == "memory_bytes=67108864 cpus=0.5 cores=2"
    files = {path.name: path.read_text() for folder in group.folders for path in folder.iterdir()}
    if group.version == 2:
        assert (files["memory.swap.max"], files["cpu.max"]) == ("0", "50000 100000")
    else:
        assert files["memory.memsw.limit_in_bytes"] == str(64 * MIB)
        assert (files["cpu.cfs_period_us"], files["cpu.cfs_quota_us"]) == ("100000", "50000")
    folder = next(folder for folder in group.folders if (folder / "pids.max").exists())
    (folder / "pids.max").write_text("2048\n")
    assert limits.stated(group) == "memory_bytes=67108864 cpus=0.5 cores=2 pids=2048"


@given(memory=st.integers(6 * MIB, 2**45), hundredths=st.integers(1, 6400))
def test_what_a_group_was_told_is_what_is_read_back(
    memory: int, hundredths: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = Group(path="g", hierarchies=(Hierarchy(mountpoint=tmp_path_factory.mktemp("cg"), version=2),))
    _fill(made.folders[0], V2)
    limits.hold(made, Limits(memory_bytes=memory, cpus=hundredths / 100))
    assert (limits.memory_limit(made), limits.cpu_limit(made)) == (memory, pytest.approx(hundredths / 100))


def test_limits_that_cannot_be_had_are_told_and_swap_is_not_needed(group: Group) -> None:
    for folder in group.folders:
        for name in limits.SWAP:
            (folder / name).unlink(missing_ok=True)
    limits.hold(group, Limits(memory_bytes=64 * MIB))
    assert limits.memory_limit(group) == 64 * MIB
    less = replace(group, hierarchies=tuple(h for h in group.hierarchies if h.controllers == ("pids",)))
    with pytest.raises(InfrastructureError, match=r"limit memory of lab/n0/c0 to 67108864: .*no such controller"):
        limits.hold(less, Limits(memory_bytes=64 * MIB))
    for hierarchy in group.hierarchies:
        if hierarchy.version == 2:
            (hierarchy.mountpoint / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert limits.missing(group.hierarchies) is None
    assert "we may not use memory, cpu, cpuset here" in str(limits.missing(()))
    only_memory = [Hierarchy(mountpoint=Path("/cg"), version=1, controllers=("memory",))]
    assert "we may not use cpu, cpuset here" in str(limits.missing(only_memory))


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Return a node with a cgroup in plain folders, whose files are made with them."""
    node_group = Group(path="lab/n0", hierarchies=(Hierarchy(mountpoint=tmp_path, version=2),))
    mkdir = Path.mkdir

    def make(folder: Path, *arguments: object, **options: object) -> None:
        mkdir(folder, *arguments, **options)  # type: ignore[arg-type]
        files = {**V2, "cgroup.controllers": "", "cgroup.procs": ""} if folder.is_relative_to(tmp_path) else {}
        for name, text in files.items():
            (folder / name).write_text(text)

    monkeypatch.setattr(Path, "mkdir", make)
    monkeypatch.setattr("tare.system.node.cgroups._rmdir", lambda folder: folder.rename(f"{folder}.removed"))
    (tmp_path / "cgroup.controllers").write_text("")
    return replace(NODE, group=node_group)


def test_containers_join_cgroups_of_their_own_where_there_are_limits(on_disk: Node) -> None:
    asked = replace(request(Limits(memory_bytes=64 * MIB)), node=on_disk)
    with held_namespaces.limited_containers(POD, asked, ((0,), (1,)), ("enter",)) as (first, second):
        assert first.enter == ("taskset", "--cpu-list", "0", "enter")
        assert first.group is not None
        assert second.group is not None
        assert limits.stated(first.group) == limits.stated(second.group) == "memory_bytes=67108864 cores=1"
        top = on_disk.group.hierarchies[0].mountpoint
        assert second.joins == (f"{top}/tare-s-n0-1",), "a node sees its own cgroup as the topmost"
        assert second.group.folders == (top / MARK / "lab/n0/tare-s-n0-1",)
    assert not first.group.folders[0].exists()
    asked = replace(request(None), node=on_disk)
    with held_namespaces.limited_containers(POD, asked, ((0,),), ("enter",)) as (container,):
        assert (container.group, container.joins) == (None, ())
    with held_namespaces.pod_group(asked) as group:
        assert group.path == "lab/n0/job"
    asked = replace(request(Limits(cpus=0.5)), node=on_disk, cores=(1,))
    with held_namespaces.pod_group(asked) as group:
        assert (group.path, limits.stated(group)) == ("lab/n0/tare-s-n0", "cpus=0.5 cores=1")
    assert not group.folders[0].exists()


AT = Endpoint(address="10.214.0.1", prefix=24, interface="eth0", mtu=1500)


def deployed(pods: tuple[Pod, ...], containers: tuple[tuple[Container, ...], ...] = ()) -> Deployed:
    inside = containers or ((),) * len(pods)
    both = zip(pods, inside, strict=True)
    pods = tuple(replace(pod, endpoint=AT, prefix=Path("/"), containers=own) for pod, own in both)
    return Deployed(environment=Environment(name="e", runtime=pods[0].runtime, network="host"), pods=pods)


def test_a_limit_that_is_hit_is_told_of_the_container_or_the_ranks(group: Group) -> None:
    limits.hold(group, Limits(memory_bytes=64 * MIB))
    up = deployed((replace(POD, group=group),))
    killed(group, 3)
    before = upkeep.memory_kills(up.pods)
    assert upkeep.memory_hit(up.pods, before) is None, "those of earlier launches do not count"
    killed(group, 4)
    assert upkeep.memory_hit(up.pods, before) == (
        "the memory limit of container tare-s-n0 on node n0 (64 MiB) was hit: a rank's process was killed by the "
        "kernel; raise memory_per_container"
    )
    up = deployed((replace(POD, runtime="bare", container="", group=group),))
    killed(group, 1)
    assert str(upkeep.memory_hit(up.pods, {})).startswith("the memory limit of the ranks on node n0 ")


def test_a_hit_is_that_of_the_launch_which_has_ended_and_of_no_other_deployment(group: Group, tmp_path: Path) -> None:
    limits.hold(group, Limits(memory_bytes=64 * MIB))
    bare = replace(POD, runtime="bare", container="")
    beside = replace(group, path="lab/n0/c1")
    for folder, new in zip(group.folders, beside.folders, strict=True):
        shutil.copytree(folder, new)
    mine, other = (deployed((replace(bare, group=own),)).pods for own in (group, beside))
    killed(group, 1)
    killed(beside, 7)
    here = LeftByLaunches(node=make_node(group=Group(path="", hierarchies=())), folder=tmp_path)
    here.keep((*mine, *other))
    assert here.memory_hit(mine) == "", "what was killed before the first launch"
    killed(group, 2)
    assert "the ranks on node n0" in here.memory_hit(mine), "those of another deployment have the same name"
    assert here.memory_hit(mine) == "", "it was told"
    here.keep(mine)
    assert here.memory_hit(mine) == ""


def test_of_several_containers_each_rank_has_its_own_limits_and_the_one_that_is_hit_is_named(group: Group) -> None:
    limits.hold(group, Limits(memory_bytes=64 * MIB))
    unlimited = Group(path="other", hierarchies=())
    assert (limits.memory_kills(unlimited), limits.memory_limit(unlimited), limits.cpu_limit(unlimited)) == (0, 0, 0.0)
    inside = tuple(Container(name=f"c{i}", enter=(), group=own) for i, own in enumerate((unlimited, group)))
    told = ["cgroup=none"] * 2 + ["memory_bytes=67108864 cores=2"] * 2
    assert limits_of_ranks(deployed((POD, POD), (inside, inside)), 8) == told * 2
    killed(group, 1)
    assert "container c1 on node n0" in str(upkeep.memory_hit(deployed((POD,), (inside,)).pods, {}))
    inside = (Container(name="c0", enter=()), Container(name="c1", enter=()))
    assert limits_of_ranks(deployed((POD,), (inside,)), 2) == ["cgroup=none", "cgroup=none"]


def limits_of_ranks(up: Deployed, count: int) -> list[str]:
    """Return the limits of the ranks of a job whose pods are all on one node."""
    node: Any = SimpleNamespace(node=POD.node)
    described = DescribedPods(state=(), limits=upkeep.limits_of(up.pods), node=NodeHas())
    ranks = [RankPlace(rank=i, host="b0/n0", hostname="n0", pid=i, cpus=(0,)) for i in range(count)]
    return [rank.rights["limits"] for rank in compared(ranks, replace(up, nodes=(node,)), (described,))]


def test_a_job_s_weight_is_set_on_its_node_s_group_and_all_of_tare_s_around_it_and_taken_back(group: Group) -> None:
    node = replace(group, path="lab/n0")
    name, raised, usual = ("cpu.weight", "10000", "100") if group.version == 2 else ("cpu.shares", "102400", "1024")
    levels = [folder for path in (".", "lab", "lab/n0") for folder in replace(group, path=path).folders]
    of_cpu = [folder for folder in levels if group.version == 2 or "/cpu/" in f"{folder}/"]
    limits.prefer(node, 10_000)
    assert [(folder / name).read_text() for folder in of_cpu] == [raised] * 3
    limits.prefer(node, 0)
    assert [(folder / name).read_text() for folder in of_cpu] == [usual] * 3


def test_a_weight_that_cannot_be_set_is_refused_and_a_job_is_preferred_while_its_launch_runs() -> None:
    with pytest.raises(InfrastructureError, match=r"set cpu.weight of lab/n0 to 50: there is no such controller"):
        limits.prefer(Group(path="lab/n0", hierarchies=()), 50)
    told: list[tuple[str, int]] = []
    services = [SimpleNamespace(prefer=lambda weight, name=name: told.append((name, weight))) for name in ("n0", "n1")]
    environment = Environment(name="bare", runtime="bare", network="host")
    up = Deployed(environment=environment, pods=(), nodes=tuple(services))  # type: ignore[arg-type]
    with pytest.raises(KeyError), up.preferred(300):
        raise KeyError
    with up.preferred(0):
        pass
    assert told == [("n0", 300), ("n1", 300), ("n1", 0), ("n0", 0)]
