"""The doctor names what is there or missing, whether figures can be trusted, and what keeps two ranks apart."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tare.cluster import CLUSTERS
from tare.doctor import locality, machine
from tare.doctor.locality import ask, described, diagnose, explain
from tare.errors import CommandFailed, UsageError
from tare.mpi import MPIS
from tare.networks import NETWORKS
from tare.node_service import clean
from tare.runtimes import RUNTIMES


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "WATCH_S", 0.01)
    monkeypatch.setattr(clean, "find", lambda **_: ())


def the_line(lines: list[str], start: str) -> str:
    (found,) = [line for line in lines if line.strip().startswith(start)]
    return found


def test_every_part_has_a_line_and_every_pair_can_run_is_missing_something_or_is_refused() -> None:
    lines, _ = machine.diagnosis()
    for family, members in (("cluster", CLUSTERS), ("runtime", RUNTIMES), ("network", NETWORKS), ("MPI", MPIS)):
        for name in members:
            found = [line for line in lines if f" {family} {name}" in line.replace(":", " ") + " "]
            assert bool(found) == (not name.startswith("fake"))
    assert "fake" not in "\n".join(lines)
    begin = lines.index("environments (two nodes)")
    told = {line.split()[1].rstrip(":"): line.split()[0] for line in lines[begin + 1 :] if line.startswith("  ")}
    pairs = len([r for r in RUNTIMES if r != "fake"]) * len([n for n in NETWORKS if not n.startswith("fake")])
    assert len(told) == pairs
    assert set(told.values()) <= {"ok", "missing", "no"}
    assert told["bare+overlay"] == "no"
    assert told["docker+docker-default"] == "no"


def test_what_is_missing_is_told_with_what_installs_it_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(RUNTIMES["docker"]), "probe", lambda self: "dockerd is not installed: apt-get install x")
    monkeypatch.setattr("tare.node.limits.missing", lambda: "no cgroup for us")
    monkeypatch.setattr(machine.mpi_programs, "on_path", lambda: "mpicc is MPICH's and mpirun Open MPI's")
    lines, _ = machine.diagnosis()
    assert the_line(lines, "missing runtime docker") == (
        "  missing runtime docker: dockerd is not installed: apt-get install x"
    )
    assert the_line(lines, "missing docker+host").endswith("apt-get install x")
    assert " NUMA node" in the_line(lines, "machine:")
    assert the_line(lines, "missing limits") == "  missing limits of containers (memory, CPUs): no cgroup for us"
    assert "  note    mpicc is MPICH's and mpirun Open MPI's" in lines


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        ((), 0),
        (("lab",), 0),
        (("openmpi",), 0),
        (("lab", "local"), 5),
        (("openmpi", "openmpi5", "mpich", "mpich5", "intelmpi", "site"), 5),
    ],
)
def test_without_a_cluster_or_an_mpi_the_doctor_ends_with_5(
    missing: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    members = {name: member for name, member in (*CLUSTERS.items(), *MPIS.items()) if not member.is_fake}
    for other in (*RUNTIMES.values(), *NETWORKS.values()):  # what they look for takes long
        monkeypatch.setattr(type(other), "probe", lambda self: None)
    for name, member in members.items():
        reason = "it is gone: apt-get install it" if name in missing else None
        monkeypatch.setattr(type(member), "probe", lambda self, reason=reason: reason)
    assert machine.show_doctor() == code
    assert "machine: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("busy_s", "steal_s", "verdict"), [(0.0, 0.0, "quiet enough"), (0.5, 0.0, "NOT quiet"), (0.0, 0.2, "NOT quiet")]
)
def test_a_used_machine_is_not_quiet(
    busy_s: float, steal_s: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([(100.0, 10.0, 0.0), (100.0 + busy_s, 10.0 + steal_s, 0.0)])
    moments = iter([0.0, 1.0])
    monkeypatch.setattr(machine.scheduling, "machine_times", lambda: next(readings))
    monkeypatch.setattr(machine.time, "monotonic", lambda: next(moments))
    monkeypatch.setattr(machine.time, "process_time", lambda: 0.0)
    monkeypatch.setattr(machine.time, "sleep", lambda s: None)
    (line,) = machine._quiet()
    assert verdict in line
    assert f"{busy_s:.1%}" in line
    assert f"{steal_s:.1%}" in line


def test_leftovers_of_killed_runs_are_counted_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    left = clean.Leftover(lab="s1", what="folder x")
    monkeypatch.setattr(clean, "find", lambda **options: (left,) * 3 if options == {"dead_only": True} else ())
    assert machine._left() == ["left behind by killed runs: 3 items; `tare clean` removes them"]


def test_environments_have_an_available_mpi_and_the_image_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in machine.environments().values():
        assert bool(value.image) == RUNTIMES[value.runtime].needs_image
    for name, member in MPIS.items():
        reason = None if name == "mpich" else "it is gone"
        monkeypatch.setattr(type(member), "probe", lambda self, reason=reason: reason)
    assert {value.mpi for value in machine.environments().values()} == {"mpich"}


def report(rank: int, **more: Any) -> dict[str, Any]:
    usual = {
        "rank": rank, "mpi": "Open MPI v4.1.4", "neighbours": 2, "hostname": "n0", "boot_id": "b", "pid": 10 + rank,
        "cpus": [rank], "namespaces": {"net": 1, "ipc": 1, "uts": 1, "pid": 1, "mnt": 1, "user": 1}, "shm": "27:1",
        "half_round_trip_us": {"1": 0.4, "65536": 6.0, "1048576": 70.0}, "single_copy": "yes",
    }  # fmt: skip
    return {**usual, **more}


def two(own: tuple[str, ...] = (), **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two reports; the second rank has these namespaces of its own."""
    second = report(1, **more)
    second["namespaces"] = {name: 2 if name in own else 1 for name in second["namespaces"]}
    return report(0, **more), second


SLOW = {"1": 5.6, "65536": 32.0, "1048576": 380.0}


def test_two_ranks_that_share_memory_have_no_finding_and_others_one_that_comes_first() -> None:
    assert diagnose(two()) == ()
    assert "1 B 0.40 us" in described(two())
    first, second = two()
    assert diagnose((first, {**second, "boot_id": "other"})) == (
        "the ranks are on two machines, which share no memory: start both on one",
    )
    (finding,) = diagnose(two(cpus=[0], half_round_trip_us={"1": 3490.0, "65536": 1.0, "1048576": 1.0}))
    assert finding.startswith("binding collapse: both ranks may only use core 0")
    assert "--cpuset-cpus" in finding
    first, second = two(("ipc",), half_round_trip_us=SLOW)
    (finding,) = diagnose((first, {**second, "shm": "30:1"}))
    assert "/dev/shm of its own" in finding


@pytest.mark.parametrize(
    ("own", "part"),
    [(("net", "mnt"), "one pod under one daemon"), (("mnt",), "one daemon on the host"), ((), "start both with one")],
)
def test_ranks_that_the_mpi_takes_for_two_hosts_lose_their_transport(own: tuple[str, ...], part: str) -> None:
    (finding,) = diagnose(two(own, neighbours=1, single_copy=""))
    assert finding.startswith("transport loss: ")
    assert part in finding


@pytest.mark.parametrize(("own", "part"), [(("ipc",), "--ipc"), (("pid",), "--pid"), ((), "or the machine is busy")])
def test_slow_neighbours_are_told_what_they_do_not_share(own: tuple[str, ...], part: str) -> None:
    (finding,) = diagnose(two(own, half_round_trip_us=SLOW))
    assert finding.startswith("one byte takes 5.6 us")
    assert part in finding


@pytest.mark.parametrize(
    ("mpi", "own", "parts"),
    [
        ("Open MPI v4.1.4", (), ("seccomp", "btl_vader_single_copy_mechanism none")),
        ("Open MPI v5.0.1", ("user",), ("two user namespaces", "smsc ^cma")),
        ("MPICH Version: 4.0.2", ("pid",), ("two pid namespaces", "UCX_TLS=^cma")),
        ("MPICH Version:      5.0.2", ("pid",), ("two pid namespaces", "MPIR_CVAR_CH4_CMA_ENABLE=0")),
    ],
)
def test_a_forbidden_single_copy_has_cause_and_option(mpi: str, own: tuple[str, ...], parts: tuple[str, ...]) -> None:
    (finding,) = diagnose(two(own, mpi=mpi, single_copy="EPERM"))
    assert all(part in finding for part in ("EPERM", *parts))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("[n0:1] [ 0] mca_btl_vader.so\nSignal: Segmentation fault", "equal process numbers"),
        ("mpirun detected ... signal 11 (Segmentation fault)", "equal process numbers"),
        ("PMIX ERROR: UNREACHABLE", "session folder"),
        ("There are not enough slots available", "--oversubscribe"),
        ("run mpirun as root ... --allow-run-as-root", "--allow-run-as-root"),
    ],
)
def test_ranks_that_do_not_come_up_are_explained(words: str, part: str) -> None:
    assert part in explain(words)
    assert explain("something else") == ""


def launcher(tmp_path: Path, *lines: str, status: int = 0) -> tuple[str, ...]:
    """Return a command that says these lines whatever it is asked to start."""
    script = tmp_path / "launcher"
    said = " ".join(shlex.quote(line) for line in lines)
    script.write_text(f"#!/bin/sh\nprintf '%s' {said}\nexit {status}\n")
    script.chmod(0o755)
    return (str(script),)


def test_the_output_of_a_launcher_is_taken_apart_or_quoted_and_an_unknown_one_refused(tmp_path: Path) -> None:
    said = "".join(f"@tare-locality {json.dumps(report(rank))}" for rank in (1, 0))
    assert [each["rank"] for each in ask(launcher(tmp_path, said))] == [0, 1]
    with pytest.raises(CommandFailed, match="did not start two ranks") as caught:
        ask(launcher(tmp_path, "There are not enough slots", status=1))
    assert "--oversubscribe" in caught.value.remedy
    with pytest.raises(UsageError, match="there is no program nowhere"):
        locality.checked(["--", "nowhere", "-n", "2"])
    assert locality.checked([sys.executable]) == (sys.executable,)
