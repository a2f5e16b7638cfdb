"""Launches of a block take turns: each is proven by its own traffic, and one that goes wrong is no other's business."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from integration.live import Watch, by_environment, ended, live, outcome, pids_of, tare, write_study
from integration.studies import stopped

pytestmark = live("docker", "cni")
OTHER_MPIS = ("mpich", "openmpi5", "mpich5")
NAMES = ["bare", "bare+bridge", "docker+host"]
KERNELS = "[latency: {iterations: 200, warmup: 20}, barrier: {iterations: 100}, spacing: {iterations: 40}]"


def study(folder: Path, limit: str = "300s", **keys: str) -> Path:
    workloads = f"{{micro: {{time_limit: {limit}, kernels: {KERNELS}}}}}"
    return write_study(folder, "turns", NAMES, **{"a_a": "true", "workloads": workloads, **keys})


def test_launches_of_a_block_run_at_the_same_time_and_each_is_proven(tmp_path: Path) -> None:
    watch = Watch()
    result = tare("run", study(tmp_path, repetition="{rounds: 2, max_rounds: 2, turns: 5}"), cwd=tmp_path)
    assert result.status == 3, result.stderr
    found = by_environment(tmp_path / "results" / "turns")
    assert sorted(found) == sorted([*NAMES, "bare (A/A)"])
    for name, its in found.items():
        assert [outcome(trial) for trial in its] == ["Completed"] * 2, name
        assert [trial["counters"]["turns"] for trial in its] == [5, 5]
        for trial in its:
            (data, *_) = [each for each in trial["traffic"] if each["role"] != "must stay silent"]
            # Others send over the same node's NIC meanwhile; what is counted is this launch's own.
            assert 340 * 2 < data["tx_packets"] < 340 * 2 * 5, (name, data)
    for number in (0, 1):
        begun = {trial["started_unix_s"] for its in found.values() for trial in its if trial["key"]["round"] == number}
        assert len(begun) == 1, "all launches of a block are of one set of turns"
    assert watch.left(result.lab) == []


def test_mini_applications_take_turns_and_each_launch_is_proven(tmp_path: Path) -> None:
    workloads = '{kmi: {miniapp: "kmi:reads=256,queries=300"}, graph500: {miniapp: "graph500:scale=9,roots=6"}}'
    path = study(tmp_path, repetition="{rounds: 1, max_rounds: 1, turns: 4}", workloads=workloads)
    result = tare("run", path, cwd=tmp_path)
    assert result.status == 3, result.stderr
    found = by_environment(tmp_path / "results" / "turns")
    for name, its in found.items():
        assert [outcome(trial) for trial in its] == ["Completed"] * 2, name
        assert [trial["counters"]["turns"] for trial in its] == [4, 4]
        assert not any(trial.get("unproven") for trial in its), name
    assert len({trial["started_unix_s"] for its in found.values() for trial in its}) == 2, "a set of turns for each"


def test_one_turn_is_a_launch_of_its_own(tmp_path: Path) -> None:
    result = tare("run", study(tmp_path, repetition="{rounds: 1, max_rounds: 1, turns: 1}"), cwd=tmp_path)
    assert result.status == 3, result.stderr
    found = by_environment(tmp_path / "results" / "turns")
    assert all("turns" not in trial["counters"] for its in found.values() for trial in its)
    assert len({trial["started_unix_s"] for (trial,) in found.values()}) == 4


@pytest.mark.parametrize(
    ("number", "limit", "says"),
    [
        pytest.param(signal.SIGKILL, "300s", "ended with status", id="killed"),
        pytest.param(
            signal.SIGSTOP, "60s", "did not end within its time limit of 60 s", id="stopped", marks=pytest.mark.long
        ),
    ],
)
def test_a_launch_that_goes_wrong_in_its_turns_leaves_the_others_alone(
    tmp_path: Path, number: signal.Signals, limit: str, says: str
) -> None:
    watch = Watch()
    path = study(tmp_path, limit, repetition="{rounds: 1, max_rounds: 1, turns: 20}")
    with stopped("turns:seated", "run", path, cwd=tmp_path) as process:
        lab = f"s{process.pid}"
        ranks = sorted(filter(is_rank, pids_of(lab)))
        assert len(ranks) == 2 * (len(NAMES) + 1)
        os.kill(ranks[-1], number)
    result = ended(process)
    assert result.status == 4, result.stderr
    found = by_environment(tmp_path / "results" / "turns")
    outcomes = sorted(outcome(trial) for (trial,) in found.values())
    assert outcomes == ["Completed"] * 3 + ["Failed"], outcomes
    (failed,) = [trial for (trial,) in found.values() if outcome(trial) == "Failed"]
    reason = failed["outcome"]["reason"]
    assert says in reason
    # Ranks of the other launches wait meanwhile: they are not among what is told of this one.
    assert all(int(each) <= 2 for each in re.findall(r"(\d+) tare-kernels", reason)), reason
    assert watch.left(lab) == []


@pytest.mark.requires("docker", "podman", "mmdebstrap")
@pytest.mark.parametrize(
    ("cluster", "names"),
    [
        ("local", ["bare: ", "apptainer: ", *(f"{mpi}: {{runtime: bare, mpi: {mpi}}}" for mpi in OTHER_MPIS)]),
        ("{lab: {nodes: 1}}", ["bare: ", "docker: ", "podman: "]),
    ],
)
def test_no_user_of_the_machine_reads_the_key_of_a_seat_in_a_command_line(
    tmp_path: Path, cluster: str, names: list[str]
) -> None:
    placements = f"[{{nodes: 1, ranks_per_node: 2{', containers_per_node: 2' if 'lab' in cluster else ''}}}]"
    rounds = "{rounds: 1, max_rounds: 1, turns: 3}"
    environments = f"{{{', '.join(names)}}}"
    more = {"cluster": cluster, "placements": placements, "a_a": "false", "repetition": rounds}
    path = write_study(
        tmp_path, "turns", environments, workloads="{micro: {kernels: [barrier: {iterations: 20}]}}", **more
    )
    with stopped("turns:seated", "run", path, cwd=tmp_path) as process:
        children = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
        ranks = list(filter(is_rank, pids_of(f"s{process.pid}") | children))
        lines = [line for each in Path("/proc").glob("[0-9]*/cmdline") for line in read(each).split(b"\0")]
        keys = {key_of(pid) for pid in ranks}
        assert len(keys) == len(names), "a key for each launch"
        assert [line for line in lines if any(key in line for key in keys)] == []
        assert [line for line in lines if line.startswith(b"--turns=")]
    assert ended(process).status in (0, 3)


def key_of(pid: int) -> bytes:
    (padding,) = [each for each in read(Path(f"/proc/{pid}/environ")).split(b"\0") if each.startswith(b"TARE_PADDING=")]
    return padding.partition(b"=")[2].partition(b":")[0]


def read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended
        return b""


def is_rank(pid: int) -> bool:
    return read(Path(f"/proc/{pid}/cmdline")).split(b"\0")[0].endswith(b"/tare-kernels")
