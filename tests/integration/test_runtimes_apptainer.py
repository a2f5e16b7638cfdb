"""Containers of Apptainer run for real on every network that needs no Docker, and leave nothing behind."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from integration.live import (
    Ended,
    Watch,
    by_environment,
    compiled,
    ended,
    live,
    outcome,
    pids_of,
    selected,
    start,
    trials,
    wait_for,
    write_study,
)
from integration.studies import KERNELS, prove, ran, roles, watched
from tare.host.paths import cache_folder
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.convert import ensure_file
from tare.runtimes.apptainer import Apptainer, find_program

pytestmark = live("cni", "mmdebstrap", "apptainer")

CARRIERS = {
    "bare": {"data NIC"},
    "apptainer": {"data NIC"},
    "apptainer-instance": {"data NIC"},
    "apptainer+bridge": {"veth of the pod", "data NIC"},
    "apptainer+direct": {"data NIC in the pod"},
    "apptainer+macvlan": {"macvlan", "data NIC"},
    "apptainer-sif": {"data NIC"},
    "apptainer-sif+bridge": {"veth of the pod", "data NIC"},
    "apptainer-sif+direct": {"data NIC in the pod"},
    "apptainer-sif+macvlan": {"macvlan", "data NIC"},
}
OWN = {"bare": set(), "apptainer-instance": {"mnt", "pid"}}
"""The namespaces that are not the node's; the others have mounts, and with a network of their own also that."""
ON_ONE_SIDE = "one side"
NAMES = ("bare", "apptainer", "apptainer-instance", "apptainer+bridge", "apptainer-sif")
ENVIRONMENTS = [
    pytest.param(name, marks=[pytest.mark.long] if name.endswith(("+direct", "+macvlan")) else [])
    for name in (*CARRIERS, ON_ONE_SIDE)
]


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Ended, Watch, Path]:
    folder = tmp_path_factory.mktemp("apptainer")
    side = f"{ON_ONE_SIDE}: {{runtime: apptainer, network: bridge, sides: receiver}}"
    ensure_file(ensure_image(find_recipe()), "sif", str(find_program()))  # packing it takes half a minute
    names = [name for name in CARRIERS if name in {*NAMES, *selected(request, "name")}]
    study = write_study(folder, "all", f"{{{', '.join([*names, side])}}}", workloads=KERNELS)
    (folder / "home").mkdir()
    result, watch = watched(study, env={"HOME": str(folder / "home"), "TARE_CACHE": str(cache_folder())})
    return result, watch, folder / "results" / "all"


def test_the_apptainer_that_is_installed_here_can_be_used() -> None:
    assert Apptainer().probe() is None
    assert Apptainer().version().split()[0] in {"apptainer", "singularity", "singularity-ce"}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_completes_and_its_traffic_went_where_it_claims(
    name: str, two_nodes: tuple[Ended, Watch, Path]
) -> None:
    result, _, results = two_nodes
    (trial,) = by_environment(results)[name]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    prove(trial)
    if name in CARRIERS:
        assert roles(trial) == CARRIERS[name]


def test_ranks_are_in_containers_of_their_own_node(two_nodes: tuple[Ended, Watch, Path]) -> None:
    found = by_environment(two_nodes[2])
    (bare,) = found["bare"]
    for name in found.keys() & CARRIERS.keys():
        (trial,) = found[name]
        for rank, on_host in zip(trial["ranks"], bare["ranks"], strict=True):
            assert (rank["host"], rank["hostname"], rank["cpus"]) == (
                on_host["host"],
                on_host["hostname"],
                on_host["cpus"],
            )
            assert rank["shm_device"] == on_host["shm_device"], name
            own = {kind for kind, number in rank["namespaces"].items() if number != on_host["namespaces"][kind]}
            assert own == OWN.get(name, {"mnt", "net"} if "+" in name else {"mnt"}), name


def test_a_run_leaves_nothing_behind_not_even_a_loop_device_or_a_folder_in_the_home(
    two_nodes: tuple[Ended, Watch, Path],
) -> None:
    result, watch, _ = two_nodes
    assert watch.most_processes > 5, "the watch saw no lab"
    assert watch.left(result.lab) == []
    assert [file for file in Path("/sys/block").glob("loop*/loop/backing_file") if "tare" in file.read_text()] == []
    assert not (two_nodes[2].parents[1] / "home" / ".apptainer").exists()
    assert [file.name for file in Path("/dev").iterdir() if "tare" in file.name] == []


def test_ranks_of_one_node_share_memory_in_one_container_and_in_two(tmp_path: Path) -> None:
    names = [name for name in NAMES if name != "apptainer-instance"]  # an instance is one container
    result, watch, results = ran(
        tmp_path,
        f"{{{', '.join(f'{name}: {{transport: shm}}' for name in names)}}}",
        cluster="{lab: {nodes: 1, cores_per_node: 2}}",
        placements="[{nodes: 1, ranks_per_node: 2}, {nodes: 1, ranks_per_node: 2, containers_per_node: 2}]",
    )
    found = by_environment(results)
    assert {name: len(its) for name, its in found.items()} == dict.fromkeys(names, 2), result.stderr
    for name, its in found.items():
        for trial in its:
            assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
            first, second = trial["ranks"]
            assert first["host"] == second["host"]
            assert first["shared_memory_ranks"] == [0, 1]
            assert not set(first["cpus"]) & set(second["cpus"])
            apart = first["namespaces"]["mnt"] != second["namespaces"]["mnt"]
            assert apart is (name != "bare" and "2c" in trial["key"]["cell"]), name
    assert watch.left(result.lab) == []


def app_study(folder: Path, how: str, limit: str) -> Path:
    program = compiled("misbehave", folder)
    workload = f"{{app: {{command: [{program}, {how}], time_limit: {limit}}}}}"
    return write_study(folder, how, ["apptainer", "apptainer-sif+bridge"], workloads=workload, baseline="apptainer")


def test_a_program_of_the_user_s_that_hangs_inside_is_ended_and_gone(tmp_path: Path) -> None:
    watch = Watch()
    process = start("run", app_study(tmp_path, "hang", "3s"), cwd=tmp_path)
    with watch.looking(f"s{process.pid}"):
        result = ended(process)
    assert result.status == 4, result.stderr
    assert re.search(r"it did not end within its time limit of 3 s; still running were .*misbehave", result.stderr)
    assert trials(tmp_path / "results" / "hang") == []
    assert watch.left(result.lab) == []


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_what_a_run_made_is_undone_when_it_is_ended_while_containers_run(
    number: signal.Signals, tmp_path: Path
) -> None:
    watch = Watch()
    process = start("run", app_study(tmp_path, "hang", "60s"), cwd=tmp_path)
    name = f"s{process.pid}"
    with watch.looking(name):
        wait_for(lambda: running(name) == 2 or process.poll() is not None, "rank in a container on each node", 90)
        assert process.poll() is None, process.stderr.read()
        os.kill(process.pid, number)
        ended(process, 30)
    if number is signal.SIGKILL:
        assert running(name) == 2, "nothing was left: the test proves nothing"
        from tare.node_service import clean  # `tare clean` would also remove the labs of others who test here

        clean.remove_lab(name)
    wait_for(lambda: not pids_of(name), "end of the processes", 5)
    assert watch.left(name) == []


def running(lab: str) -> int:
    """Return how many ranks of the program that hangs run in the lab."""
    return sum(b"misbehave" in _read(pid).split(b"\0")[0] for pid in pids_of(lab))


def _read(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
