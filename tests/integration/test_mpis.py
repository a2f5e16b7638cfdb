"""Open MPI 5 and MPICH 5 run what Open MPI 4.1 and MPICH 4.0 run: bare, in containers, launched in every way."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from integration.live import (
    Watch,
    by_environment,
    compiled,
    ended,
    live,
    outcome,
    said,
    selected,
    start,
    tare,
    trials,
    wait_for,
    write_study,
)
from integration.studies import watched

pytestmark = [
    *live("openmpi5", "mpich5", "docker", "podman", "apptainer", "charliecloud", "cni", "mmdebstrap", "sshd"),
    pytest.mark.timeout(240),
]

MPIS = ("openmpi5", "mpich5")
SAYS = {"openmpi5": "Open MPI v5.0", "mpich5": "MPICH Version:      5.0"}
LONG = "{micro: {kernels: [{latency: {message_bytes: 65536, iterations: 60}}, {barrier: {iterations: 20, warmup: 5}}]}}"
LITTLE = 65536 * 60 / 10

ON_TWO_NODES = {
    "bare": "runtime: bare",
    "bare over ssh": "runtime: bare, network: bridge, launch: ssh, control: data",
    "docker+bridge": "runtime: docker, network: bridge",
    "docker over ssh": "runtime: docker, launch: ssh",
    "podman daemon": "runtime: podman, network: bridge, launch: daemon",
    "apptainer": "runtime: apptainer, launch: hybrid",
    "docker with the host's MPI": "runtime: docker, launch: host-mpi, image: debian-mpich",
}
ON_ONE_NODE = {
    "bare": "runtime: bare",
    "shm": "runtime: bare, transport: shm",
    "docker+bridge": "runtime: docker, network: bridge",
    "charliecloud": "runtime: charliecloud",
}
FOUR_RANKS = {"bare": "runtime: bare", "docker+bridge": "runtime: docker, network: bridge"}
Found = Mapping[str, Any]


def stated(environments: Mapping[str, str]) -> str:
    """Return the environments of a study, each with every MPI."""
    listed = [f"{mpi} {name}: {{mpi: {mpi}, {more}}}" for mpi in MPIS for name, more in environments.items()]
    return f"{{{', '.join(listed)}}}"


@pytest.fixture(scope="module", params=MPIS)
def mpi(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Found, list[str]]:
    folder = tmp_path_factory.mktemp("mpis")
    environments = stated({name: ON_TWO_NODES[name] for name in sorted(selected(request, "name"))})
    result, watch = watched(write_study(folder, "two", environments, workloads=LONG), 200)
    found = {key: (each[0], result.stderr) for key, each in by_environment(folder / "results" / "two").items()}
    return found, watch.left(result.lab)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name.endswith("over ssh") else [])  # test_launching.py has it
        for name in ON_TWO_NODES
    ],
)
def test_an_environment_is_launched_and_its_treatment_is_proven(
    name: str, mpi: str, two_nodes: tuple[Found, list[str]]
) -> None:
    trial, stderr = two_nodes[0][f"{mpi} {name}"]
    assert outcome(trial) == "Completed", (trial["outcome"], stderr)
    assert trial["mpi_library"].startswith(SAYS[mpi])
    assert [place["shared_memory_ranks"] for place in trial["ranks"]] == [[0], [1]]


def test_nothing_is_left_behind(two_nodes: tuple[Found, list[str]]) -> None:
    assert two_nodes[1] == []


@pytest.mark.long  # with MPICH 4 in test_mpich.py, with Open MPI 4 in test_placements.py
def test_ranks_of_a_node_share_memory_also_in_two_containers_of_a_pod(tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        "one",
        stated(ON_ONE_NODE),
        cluster="{lab: {nodes: 1, cores_per_node: 2}}",
        placements="[{nodes: 1, ranks_per_node: 2, containers_per_node: 2}]",
        workloads=LONG,
    )
    result = tare("run", study, cwd=tmp_path)
    found = by_environment(tmp_path / "results" / "one")
    assert set(found) == {f"{mpi} {name}" for mpi in MPIS for name in ON_ONE_NODE}, result.stderr
    for name, (trial,) in found.items():
        assert outcome(trial) == "Completed", (name, trial["outcome"])
        assert trial["mpi_library"].startswith(SAYS[name.split()[0]])
        first, second = trial["ranks"]
        assert first["shared_memory_ranks"] == second["shared_memory_ranks"] == [0, 1]
        assert not set(first["cpus"]) & set(second["cpus"])
        assert sum(item["tx_bytes"] for item in trial["traffic"]) < LITTLE, name


@pytest.mark.long  # one node with two ranks, and two with one each, are in make test; both at once in test_mpich.py
def test_of_two_nodes_with_two_ranks_neighbours_share_memory_and_the_others_use_the_network(tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        "four",
        stated(FOUR_RANKS),
        cluster="{lab: {nodes: 2, oversubscribe: true}}",
        placements="[{nodes: 2, ranks_per_node: 2, oversubscribe: true}]",
        workloads="{micro: {kernels: [{alltoall: {message_bytes: 65536, iterations: 5}}]}}",
    )
    result = tare("run", study, cwd=tmp_path)
    found = by_environment(tmp_path / "results" / "four")
    assert len(found) == len(MPIS) * len(FOUR_RANKS), result.stderr
    for name, (trial,) in found.items():
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
        assert [place["shared_memory_ranks"] for place in trial["ranks"]] == [[0, 1], [0, 1], [2, 3], [2, 3]]


def test_a_launched_application_passes_its_status_on_and_says_whose_a_line_is(mpi: str, tmp_path: Path) -> None:
    program = compiled("where", tmp_path, mpi=mpi)
    result = tare("launch", "--mpi", mpi, "-n", "2", "--by-rank", "--", program, "7", cwd=tmp_path)
    assert result.status == 7, result.stderr
    lines = sorted(line for line in result.stdout.splitlines() if "of 2 on n0" in line)
    assert [line.split("rank ", 1)[1][0] for line in lines] == ["0", "1"]
    assert not any(line.startswith("rank ") for line in lines)


def test_a_signal_ends_a_job_whose_launcher_is_in_a_container(mpi: str, tmp_path: Path) -> None:
    program = compiled("where", tmp_path, mpi=mpi)
    words = ("--mpi", mpi, "--runtime", "docker", "--network", "bridge", "-n", "1", "--launch", "ssh")
    process = start("launch", *words, "--", program, "0", "60", cwd=tmp_path)
    watch = Watch()
    with watch.looking(f"l{process.pid}"):
        wait_for((tmp_path / "written").exists, "the application to run", 40)
        os.kill(process.pid, signal.SIGTERM)
        result = ended(process, 20)
    assert result.status not in {0, 125}, result.stderr
    assert watch.left(f"l{process.pid}") == []


def test_a_study_has_several_mpis_each_workload_in_the_images_and_with_the_programs_of_its_own(tmp_path: Path) -> None:
    kernels = "kernels: [{barrier: {iterations: 20, warmup: 5}}]"
    study = write_study(
        tmp_path,
        "several",
        "{bare: , docker+macvlan: , podman: {mpi: mpich5, network: bridge}}",
        workloads=f"{{a: {{{kernels}}}, b: {{mpi: mpich5, {kernels}}}}}",
    )
    result = tare("run", study, cwd=tmp_path)
    found = {trial["key"]["cell"]: trial for trial in trials(tmp_path / "results" / "several")}
    assert {outcome(trial) for trial in found.values()} == {"Completed"}, (result.stderr, said(found.values()))
    libraries = {
        cell.replace(" / 2n x 1r / ", " "): trial["mpi_library"].split(".")[0] for cell, trial in found.items()
    }
    assert libraries == {
        "a bare": "Open MPI v4",
        "a docker+macvlan": "Open MPI v4",
        "a podman": "MPICH Version:      5",
        "b bare": "MPICH Version:      5",
        "b docker+macvlan": "MPICH Version:      5",
        "b podman": "MPICH Version:      5",
    }
    told = " ".join(result.stdout.split())
    assert told.count("another MPI: it uses mpich5 and bare uses openmpi") == 1, result.stdout
