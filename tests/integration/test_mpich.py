"""MPICH runs the environments that Open MPI runs, over the network that each claims, and ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from integration.live import Ended, Watch, by_environment, compiled, ended, live, outcome, selected, start, write_study
from integration.studies import KERNELS, PAYLOAD, prove, ran, roles

pytestmark = live("mpich", "docker", "cni", "mmdebstrap")

INTERFACES: Mapping[str, tuple[str, str]] = {
    "bare": ("data0", "data0"),
    "bare+image": ("data0", "data0"),
    "bare+bridge": ("eth0", "eth0"),
    "bare+image+bridge": ("eth0", "eth0"),
    "docker+host": ("data0", "data0"),
    "docker+bridge": ("eth0", "eth0"),
    "docker+overlay": ("eth0", "eth0"),
    "docker+bridge sender": ("eth0", "the NIC of its environment"),
}
USUAL = ("bare", "bare+image+bridge", "docker+bridge", "docker+bridge sender")
NAMES = [pytest.param(name, marks=[] if name in USUAL else [pytest.mark.long]) for name in INTERFACES]


def stated(name: str) -> str:
    if name.endswith("sender"):
        return f"{name}: {{runtime: docker, network: bridge, sides: sender, mpi: mpich}}"
    return f"{name}: {{mpi: mpich}}"


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Ended, Watch, Path]:
    folder = tmp_path_factory.mktemp("mpich")
    wanted = {"bare", *selected(request, "name")}
    names = [name for name in INTERFACES if name in wanted]
    return ran(folder, f"{{{', '.join(map(stated, names))}}}")


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_completes_and_proves_where_its_traffic_went(
    name: str, two_nodes: tuple[Ended, Watch, Path]
) -> None:
    result, _, results = two_nodes
    (trial,) = by_environment(results)[name]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    assert "MPICH" in trial["mpi_library"]
    assert [place["shared_memory_ranks"] for place in trial["ranks"]] == [[0], [1]]
    assert roles(trial)
    prove(trial)


@pytest.mark.parametrize("name", NAMES)
def test_ranks_are_told_the_interface_of_their_own_pod(name: str, two_nodes: tuple[Ended, Watch, Path]) -> None:
    found = by_environment(two_nodes[2])
    (trial,) = found[name]
    argv = trial["argv"]
    named = [argv[i + 2] for i, token in enumerate(argv[:-2]) if argv[i : i + 2] == ["-env", "UCX_NET_DEVICES"]]
    # In the order of the study every environment with a bridge of its own has the next NIC of its nodes.
    before = [each for each in INTERFACES if each in found and each.endswith("+bridge")]
    nic = f"data{len(before) + 1}"
    assert set(named) == {nic if each.startswith("the NIC") else each for each in INTERFACES[name]}


def test_a_run_leaves_nothing_behind(two_nodes: tuple[Ended, Watch, Path]) -> None:
    result, watch, _ = two_nodes
    assert watch.most_processes > 20, "the watch saw no lab"
    assert watch.left(result.lab) == []


def test_two_ranks_of_a_node_share_memory_and_send_nothing_also_in_two_containers_of_a_pod(tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        "one",
        "{bare: {mpi: mpich}, shm: {runtime: bare, transport: shm, mpi: mpich}, docker+bridge: {mpi: mpich}}",
        cluster="{lab: {nodes: 1, cores_per_node: 2}}",
        placements="[{nodes: 1, ranks_per_node: 2}, {nodes: 1, ranks_per_node: 2, containers_per_node: 2}]",
        workloads=KERNELS,
    )
    result = ended(start("run", study, cwd=tmp_path))
    found = by_environment(tmp_path / "results" / "one")
    assert {name: len(its) for name, its in found.items()} == {"bare": 2, "shm": 2, "docker+bridge": 2}, result.stderr
    for name, its in found.items():
        for trial in its:
            assert outcome(trial) == "Completed", (name, trial["outcome"])
            first, second = trial["ranks"]
            assert first["shared_memory_ranks"] == second["shared_memory_ranks"] == [0, 1]
            assert not set(first["cpus"]) & set(second["cpus"])
            assert sum(item["tx_bytes"] for item in trial["traffic"]) < PAYLOAD / 10, name


@pytest.mark.long  # a launch that ends is in every other test here
def test_a_launch_ends_every_time(tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        "often",
        "{bare: {mpi: mpich}, bare+bridge: {mpi: mpich}}",
        repetition="{rounds: 2, max_rounds: 2, blocks_per_round: 4}",
    )
    ended(start("run", study, cwd=tmp_path), 110)
    trials = [trial for each in by_environment(tmp_path / "results" / "often").values() for trial in each]
    assert [outcome(trial) for trial in trials] == ["Completed"] * 16


def test_a_command_of_the_users_ends_too_and_its_time_is_told(tmp_path: Path) -> None:
    program = compiled("split", tmp_path, mpi="mpich")
    study = write_study(
        tmp_path,
        "app",
        "{bare: {mpi: mpich}, docker+bridge: {mpi: mpich}}",
        workloads=f"{{app: {{time_limit: 30s, command: [{program}]}}}}",
    )
    result = ended(start("run", study, cwd=tmp_path))
    for name, (trial,) in by_environment(tmp_path / "results" / "app").items():
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
