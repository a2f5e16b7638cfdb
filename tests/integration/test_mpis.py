"""MPICH 4 and the MPIs of Debian's successors, Open MPI 5 and MPICH 5: bare, in containers, launched in every way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from integration.containers import DAEMON, DAEMON_ONE, DOCKER_OWN, ON_ONE_NODE, ONE, VETH, Case, Studied, check, studied
from integration.live import (
    Watch,
    compiled,
    ended,
    live,
    outcome,
    reached,
    said,
    selected,
    start,
    tare,
    trials,
    write_study,
)
from integration.studies import prove

pytestmark = [
    *live("mpich", "openmpi5", "mpich5", "docker", "podman", "apptainer", "charliecloud", "cni", "mmdebstrap"),
    pytest.mark.requires("sshd"),
]

SAYS = {"mpich": "MPICH Version: 4", "openmpi5": "Open MPI v5.0", "mpich5": "MPICH Version: 5.0"}
OFTEN = {
    "mpich bare+image+bridge", "mpich docker+bridge", "openmpi5 bare", "openmpi5 docker+bridge",
    "openmpi5 podman daemon", "mpich5 apptainer", "mpich5 docker+bridge", "mpich5 docker with the host's MPI",
}  # fmt: skip
"""What `make test-live` has; all else is in `make test-all`."""
WAYS = {
    "bare": Case("runtime: bare", ""),
    "bare over ssh": Case("runtime: bare, network: bridge, launch: ssh, control: data", "mnt net", VETH),
    "bare+image+bridge": Case("runtime: bare, image: true, network: bridge", "mnt net", VETH),
    "docker+bridge": Case("runtime: docker, network: bridge", DOCKER_OWN, VETH, hosts=DAEMON),
    "docker+overlay": Case(
        "runtime: docker, network: overlay", DOCKER_OWN, "data NIC under the VXLAN, overlay", hosts=DAEMON
    ),
    "docker over ssh": Case("runtime: docker, launch: ssh", "ipc mnt pid uts", hosts=DAEMON),
    "podman daemon": Case("runtime: podman, network: bridge, launch: daemon", DOCKER_OWN, VETH),
    "apptainer": Case("runtime: apptainer, launch: hybrid", "mnt"),
    "docker with the host's MPI": Case(
        "runtime: docker, launch: host-mpi, image: debian-mpich", "ipc mnt pid uts", hosts=DAEMON
    ),
}
OF_ONE_NODE = {
    "bare": Case("runtime: bare", "", hosts=ONE, carries=False),
    "shm": Case("runtime: bare, transport: shm", "", hosts=ONE, carries=False),
    "docker+bridge": Case("runtime: docker, network: bridge", DOCKER_OWN, VETH, hosts=DAEMON_ONE, carries=False),
    "charliecloud": Case("runtime: charliecloud", "mnt user", hosts=ONE, carries=False),
}


def with_mpi(cases: dict[str, Case]) -> dict[str, Case]:
    """Return the cases with each MPI, by both names."""
    return {
        f"{mpi} {name}": Case(f"{case.stated}, mpi: {mpi}", case.own, case.roles, says, case.hosts, case.carries)
        for mpi, says in SAYS.items()
        for name, case in cases.items()
        if mpi != "mpich" or "host-mpi" not in case.stated  # it is in test_smoke_environments.py
    }


CASES, ONE_NODE = with_mpi(WAYS), with_mpi(OF_ONE_NODE)
OF_ONE_OFTEN = {"mpich shm", "mpich docker+bridge", "openmpi5 docker+bridge", "mpich5 charliecloud"}


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Studied:
    wanted = {name: case for name, case in CASES.items() if name in selected(request, "name")}
    side = Case("runtime: docker, network: bridge, sides: sender, mpi: mpich", "")
    return studied(tmp_path_factory.mktemp("two"), {**wanted, "sender": side})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.long]) for name in CASES]
)
def test_an_environment_is_launched_and_its_treatment_is_proven(name: str, two_nodes: Studied) -> None:
    (trial,) = two_nodes[2][name]
    check(CASES[name], trial, two_nodes[0])


def test_ranks_of_mpich_are_told_the_interface_of_their_own_pod_also_on_one_side_only(two_nodes: Studied) -> None:
    devices = {}
    for name in ("mpich docker+bridge", "sender"):
        (trial,) = two_nodes[2][name]
        assert outcome(trial) == "Completed", trial["outcome"]
        prove(trial)
        argv = trial["argv"]
        devices[name] = [argv[i + 2] for i in range(len(argv)) if argv[i : i + 2] == ["-env", "UCX_NET_DEVICES"]]
    assert set(devices["mpich docker+bridge"]) == {"eth0"}
    inside, nic = dict.fromkeys(devices["sender"])
    assert inside == "eth0"
    assert nic.startswith("data")
    assert nic != "data0", "an environment with a bridge has the next NIC of its nodes"


def test_nothing_is_left_behind(two_nodes: Studied) -> None:
    assert two_nodes[1].left(two_nodes[0].lab) == []


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Studied:
    wanted = {name: case for name, case in ONE_NODE.items() if name in selected(request, "of_one")}
    placements = "[{nodes: 1, ranks_per_node: 2}, {nodes: 1, ranks_per_node: 2, containers_per_node: 2}]"
    return studied(tmp_path_factory.mktemp("one"), wanted, **{**ON_ONE_NODE, "placements": placements})


@pytest.mark.parametrize(
    "of_one", [pytest.param(name, marks=[] if name in OF_ONE_OFTEN else [pytest.mark.long]) for name in ONE_NODE]
)
def test_ranks_of_a_node_share_memory_also_in_two_containers_of_a_pod(of_one: str, one_node: Studied) -> None:
    its = one_node[2][of_one]
    assert len(its) == 2
    for trial in its:
        check(ONE_NODE[of_one], trial, one_node[0])


@pytest.mark.long  # one node with two ranks, and two with one each, are above
def test_of_two_nodes_with_two_ranks_neighbours_share_memory_and_the_others_use_the_network(tmp_path: Path) -> None:
    result, _, found = studied(
        tmp_path,
        {name: case for name, case in CASES.items() if name.endswith((" bare", " docker+bridge"))},
        cluster="{lab: {nodes: 2, oversubscribe: true}}",
        placements="[{nodes: 2, ranks_per_node: 2, oversubscribe: true}]",
        workloads="{micro: {time_limit: 300s, kernels: [{alltoall: {message_bytes: 65536, iterations: 5}}]}}",
    )
    assert len(found) == 2 * len(SAYS), result.stderr
    for name, (trial,) in found.items():
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
        assert [place["shared_memory_ranks"] for place in trial["ranks"]] == [[0, 1], [0, 1], [2, 3], [2, 3]]


@pytest.mark.long  # a launch that ends is in every other test here
def test_a_launch_of_mpich_ends_every_time_and_so_does_a_command_of_the_user_s(tmp_path: Path) -> None:
    program = compiled("split", tmp_path, mpi="mpich")
    result, _, found = studied(
        tmp_path,
        {name: CASES[name] for name in ("mpich bare", "mpich docker+bridge")},
        workloads=f"{{micro: {{kernels: [{{barrier: {{iterations: 20}}}}]}}, app: {{command: [{program}]}}}}",
        repetition="{rounds: 2, max_rounds: 2, blocks_per_round: 2}",
    )
    assert [outcome(trial) for its in found.values() for trial in its] == ["Completed"] * 16, result.stderr


@pytest.mark.parametrize("mpi", ["openmpi5", pytest.param("mpich5", marks=pytest.mark.long)])
def test_a_launched_application_passes_its_status_on_and_says_whose_a_line_is(mpi: str, tmp_path: Path) -> None:
    program = compiled("where", tmp_path, mpi=mpi)
    result = tare("launch", "--mpi", mpi, "-n", "2", "--by-rank", "--", program, "7", cwd=tmp_path)
    assert result.status == 7, result.stderr
    lines = sorted(line for line in result.stdout.splitlines() if "of 2 on n0" in line)
    assert [line.split("rank ", 1)[1][0] for line in lines] == ["0", "1"]
    assert not any(line.startswith("rank ") for line in lines)


@pytest.mark.parametrize("mpi", ["mpich5", pytest.param("openmpi5", marks=pytest.mark.long)])
def test_a_signal_ends_a_job_whose_launcher_is_in_a_container(mpi: str, tmp_path: Path) -> None:
    program = compiled("where", tmp_path, mpi=mpi)
    words = ("--mpi", mpi, "--runtime", "docker", "--network", "bridge", "-n", "1", "--launch", "ssh")
    process = start("launch", *words, "--", program, "0", "stay", cwd=tmp_path)
    watch = Watch()
    with watch.looking(f"l{process.pid}"):
        reached(process, (tmp_path / "written").exists, "the application to run")
        os.kill(process.pid, signal.SIGTERM)
        result = ended(process)
    assert result.status not in {0, 125}, result.stderr
    assert watch.left(f"l{process.pid}") == []


def test_a_study_has_several_mpis_each_workload_in_the_images_and_with_the_programs_of_its_own(tmp_path: Path) -> None:
    kernels = "time_limit: 300s, kernels: [{barrier: {iterations: 20, warmup: 5}}]"
    study = write_study(
        tmp_path,
        "several",
        "{bare: , docker+macvlan: , podman: {mpi: mpich5, network: bridge}}",
        workloads=f"{{a: {{{kernels}}}, b: {{mpi: mpich5, {kernels}}}}}",
    )
    result = tare("run", study, cwd=tmp_path)
    found = {trial["key"]["cell"]: trial for trial in trials(tmp_path / "results" / "several")}
    assert {outcome(trial) for trial in found.values()} == {"Completed"}, (result.stderr, said(found.values()))
    libraries = {cell.replace(" / 2n x 1r / ", " "): trial["mpi_library"][:24] for cell, trial in found.items()}
    both = ("a podman", "b bare", "b docker+macvlan", "b podman")
    assert {cell for cell, library in libraries.items() if library.startswith("MPICH Version:")} == {*both}
    assert {cell for cell, library in libraries.items() if library.startswith("Open MPI v4")} == libraries.keys() - both
    told = " ".join(result.stdout.split())
    assert told.count("another MPI: it uses mpich5 and bare uses openmpi") == 1, result.stdout
