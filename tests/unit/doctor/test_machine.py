"""The doctor names what is there, what is missing and what installs it, and whether figures can be trusted."""

from __future__ import annotations

import pytest

from tare.cluster import CLUSTERS
from tare.doctor import machine
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


def test_every_part_has_a_line_and_the_fakes_have_none() -> None:
    lines, _ = machine.diagnosis()
    for family, members in (("cluster", CLUSTERS), ("runtime", RUNTIMES), ("network", NETWORKS), ("MPI", MPIS)):
        for name in members:
            found = [line for line in lines if f" {family} {name}" in line.replace(":", " ") + " "]
            assert bool(found) == (not name.startswith("fake"))
    assert "fake" not in "\n".join(lines)


def test_the_machine_s_cores_and_whether_containers_can_be_limited_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.node.limits.missing", lambda: "no cgroup for us")
    lines, _ = machine.diagnosis()
    assert " NUMA node" in the_line(lines, "machine:")
    assert the_line(lines, "missing limits") == "  missing limits of containers (memory, CPUs): no cgroup for us"


def test_every_pair_of_runtime_and_network_can_run_is_missing_something_or_is_refused() -> None:
    lines, _ = machine.diagnosis()
    begin = lines.index("environments (two nodes)")
    told = {line.split()[1].rstrip(":"): line.split()[0] for line in lines[begin + 1 :] if line.startswith("  ")}
    pairs = len([r for r in RUNTIMES if r != "fake"]) * len([n for n in NETWORKS if not n.startswith("fake")])
    assert len(told) == pairs
    assert set(told.values()) <= {"ok", "missing", "no"}
    assert told["bare+overlay"] == "no"
    assert told["docker+docker-default"] == "no"


def test_what_is_missing_is_told_with_what_installs_it_and_what_needs_it_is_missing_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(RUNTIMES["docker"]), "probe", lambda self: "dockerd is not installed: apt-get install x")
    lines, _ = machine.diagnosis()
    assert the_line(lines, "missing runtime docker") == (
        "  missing runtime docker: dockerd is not installed: apt-get install x"
    )
    assert the_line(lines, "missing docker+host").endswith("apt-get install x")


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
    for name, member in members.items():
        reason = "it is gone: apt-get install it" if name in missing else None
        monkeypatch.setattr(type(member), "probe", lambda self, reason=reason: reason)
    assert machine.show_doctor() == code
    assert "machine: " in capsys.readouterr().out


def test_environments_have_an_mpi_that_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, member in MPIS.items():
        reason = None if name == "mpich" else "it is gone"
        monkeypatch.setattr(type(member), "probe", lambda self, reason=reason: reason)
    assert {value.mpi for value in machine.environments().values()} == {"mpich"}


def test_an_mpicc_and_an_mpirun_of_two_mpis_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.mpi_programs, "on_path", lambda: "mpicc is MPICH's and mpirun Open MPI's")
    lines, _ = machine.diagnosis()
    assert "  note    mpicc is MPICH's and mpirun Open MPI's" in lines


@pytest.mark.parametrize(
    ("busy_s", "steal_s", "verdict"), [(0.0, 0.0, "quiet enough"), (0.5, 0.0, "NOT quiet"), (0.0, 0.2, "NOT quiet")]
)
def test_a_machine_that_others_use_is_not_quiet(
    busy_s: float, steal_s: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([(100.0, 10.0, 0.0), (100.0 + busy_s, 10.0 + steal_s, 0.0)])
    moments = iter([0.0, 1.0])
    monkeypatch.setattr(machine.monitor, "machine_times", lambda: next(readings))
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


def test_environments_have_the_image_that_their_runtime_needs() -> None:
    for value in machine.environments().values():
        assert bool(value.image) == RUNTIMES[value.runtime].needs_image
