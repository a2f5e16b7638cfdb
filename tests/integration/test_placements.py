"""Several containers on a node: one pod under one daemon shares memory; a pod each is a host each."""

from __future__ import annotations

from typing import Any

import pytest

from integration.live import Ended, Watch, live, outcome, selected, trials, write_study
from integration.studies import watched

pytestmark = live("docker", "cni", "mmdebstrap")
PLACEMENTS = """[
  {nodes: 1, ranks_per_node: 2, containers_per_node: 2},
  {nodes: 1, ranks_per_node: 2, containers_per_node: 2, share: none},
  {nodes: 1, ranks_per_node: 2, containers_per_node: 2, share: none, binding: mpi-default}]"""
FEW = """{micro: {time_limit: 300s, kernels: [{latency: {message_bytes: 8, iterations: 60, warmup: 2}}]}}"""
IN_ONE_POD, A_POD_EACH, BOUND = (
    "1n x 2r in 2c",
    "1n x 2r in 2c, a pod each",
    "1n x 2r in 2c, a pod each, bound by the MPI",
)
OWN_POD = ("docker+bridge", pytest.param("docker+macvlan", marks=pytest.mark.long))


@pytest.fixture(scope="module")
def ran(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Ended, Watch, dict[tuple[str, str], dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("placements")
    study = write_study(
        folder,
        "several",
        ["bare", "docker+host", *sorted(selected(request, "environment") - {"docker+host"})],
        cluster="{lab: {nodes: 1}}",
        placements=PLACEMENTS.replace("\n", " "),
        workloads=FEW,
    )
    result, watch = watched(study)
    found = {}
    for trial in trials(folder / "results" / "several"):
        _, placement, environment = trial["key"]["cell"].split(" / ")
        found[placement, environment] = trial
    return result, watch, found


@pytest.mark.parametrize("environment", ["docker+host", *OWN_POD])
def test_containers_of_one_pod_share_memory_on_cores_of_their_own(environment: str, ran: Any) -> None:
    result, _, found = ran
    trial = found[IN_ONE_POD, environment]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    first, second = trial["ranks"]
    assert first["shared_memory_ranks"] == second["shared_memory_ranks"] == [0, 1]
    assert first["namespaces"]["mnt"] != second["namespaces"]["mnt"], "both ranks ran in one container"
    assert first["pid"] != second["pid"]
    assert not set(first["cpus"]) & set(second["cpus"])


@pytest.mark.parametrize("environment", OWN_POD)
def test_containers_with_a_pod_each_are_hosts_and_lose_shared_memory(environment: str, ran: Any) -> None:
    result, _, found = ran
    trial = found[A_POD_EACH, environment]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    assert [rank["hostname"] for rank in trial["ranks"]] == ["d0c0", "d0c1"]
    assert [rank["shared_memory_ranks"] for rank in trial["ranks"]] == [[0], [1]]
    assert not set(trial["ranks"][0]["cpus"]) & set(trial["ranks"][1]["cpus"])


@pytest.mark.parametrize("environment", OWN_POD)
def test_left_to_the_mpi_both_ranks_end_on_one_core(environment: str, ran: Any) -> None:
    trial = ran[2][BOUND, environment]
    assert outcome(trial) == "Completed", trial["outcome"]
    assert trial["ranks"][0]["cpus"] == trial["ranks"][1]["cpus"]


def test_the_report_tells_the_two_mechanisms_apart(ran: Any) -> None:
    said = " ".join(ran[0].stdout.split())
    names = ", ".join(sorted(name for placement, name in ran[2] if placement == A_POD_EACH and name != "bare"))
    assert "docker+bridge" in names
    assert f"{names}: transport loss: ranks 0 and 1 are on one node" in said
    assert f"{names}: binding collapse: 2 ranks of one node share 1 core" in said


def test_a_pod_each_on_the_node_s_own_network_is_unavailable_with_the_reason(ran: Any) -> None:
    assert "host has no address for each container" in " ".join(ran[0].stdout.split())
    assert (A_POD_EACH, "docker+host") not in ran[2]


def test_nothing_is_left_of_several_containers(ran: Any) -> None:
    result, watch, _ = ran
    assert len(watch.namespaces) > 20
    assert watch.left(result.lab) == []
