"""Ranks that go to the nodes in turn are where the placement says, with every MPI, on the cores of their own node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from integration.live import by_environment, live, outcome, selected, write_study
from integration.studies import watched

pytestmark = live("mpich", "openmpi5", "mpich5", "docker", "cni", "mmdebstrap")

ENVIRONMENTS: Final = {
    "openmpi": "runtime: bare",
    "openmpi in docker": "runtime: docker, network: bridge",
    "openmpi, two containers": "runtime: docker, network: bridge, placement: {containers_per_node: 2}",
    "mpich": "runtime: bare, mpi: mpich",
    "mpich in docker": "runtime: docker, network: bridge, mpi: mpich",
    "mpich, two containers": "runtime: docker, network: bridge, mpi: mpich, placement: {containers_per_node: 2}",
    "openmpi5": "runtime: bare, mpi: openmpi5",
    "mpich5": "runtime: bare, mpi: mpich5",
}
OFTEN: Final = ("openmpi", "openmpi, two containers", "mpich in docker", "mpich5")
ALL_TO_ALL: Final = "{micro: {time_limit: 300s, kernels: [{alltoall: {message_bytes: 65536, iterations: 20}}]}}"
Found = Mapping[str, Any]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Found, str, list[str]]:
    folder = tmp_path_factory.mktemp("ranks")
    names = sorted(selected(request, "name"))
    listed = ", ".join(f'"{name}": {{{ENVIRONMENTS[name]}}}' for name in names)
    study = write_study(
        folder,
        "ranks",
        f"{{{listed}}}",
        cluster="{lab: {nodes: 2, oversubscribe: true}}",
        placements="[{nodes: 2, ranks_per_node: 2, oversubscribe: true, rank_order: cyclic}]",
        workloads=ALL_TO_ALL,
    )
    result, watch = watched(study)
    found = {name: each[0] for name, each in by_environment(folder / "results" / "ranks").items()}
    return found, result.stderr, watch.left(result.lab)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.long]) for name in ENVIRONMENTS]
)
def test_ranks_go_to_the_nodes_in_turn(name: str, ran: tuple[Found, str, list[str]]) -> None:
    trial = ran[0][name]
    assert outcome(trial) == "Completed", (trial["outcome"], ran[1])
    first, second, third, fourth = (rank["host"] for rank in trial["ranks"])
    assert first == third
    assert second == fourth
    assert first != second
    cores = [rank["cpus"] for rank in trial["ranks"]]
    assert cores == [[0], [1], [0], [1]], "each node has one core"


def test_nothing_is_left(ran: tuple[Found, str, list[str]]) -> None:
    assert ran[2] == []


def test_one_command_for_all_hosts_binds_each_rank_to_its_own_core(tmp_path: Path) -> None:
    names = ("openmpi", "mpich in docker", "openmpi5", "mpich5")
    listed = ", ".join(f'"{name}": {{{ENVIRONMENTS[name]}}}' for name in names)
    study = write_study(
        tmp_path, "bound", f"{{{listed}}}", cluster="{lab: {nodes: 1}}", workloads=ALL_TO_ALL,
        placements="[{nodes: 1, ranks_per_node: 2, rank_order: cyclic}]",
    )  # fmt: skip
    result, _ = watched(study)
    found = by_environment(tmp_path / "results" / "bound")
    assert {name: outcome(trial) for name, (trial,) in found.items()} == dict.fromkeys(names, "Completed"), (
        result.stderr
    )
    for name, (trial,) in found.items():
        assert [rank["cpus"] for rank in trial["ranks"]] == [[0], [1]], name
