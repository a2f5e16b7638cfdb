"""What two ranks tell of themselves becomes the mechanism that keeps them apart, with its remedy."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tare.doctor import locality
from tare.doctor.locality import ask, described, diagnose, explain
from tare.errors import CommandFailed, UsageError


def report(rank: int, **more: Any) -> dict[str, Any]:
    usual = {
        "rank": rank,
        "mpi": "Open MPI v4.1.4",
        "neighbours": 2,
        "hostname": "n0",
        "boot_id": "b",
        "pid": 10 + rank,
        "cpus": [rank],
        "namespaces": {"net": 1, "ipc": 1, "uts": 1, "pid": 1, "mnt": 1, "user": 1},
        "shm": "27:1",
        "half_round_trip_us": {"1": 0.4, "65536": 6.0, "1048576": 70.0},
        "single_copy": "yes",
    }
    return {**usual, **more}


def two(own: tuple[str, ...] = (), **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two reports; the second rank has these namespaces of its own."""
    second = report(1, **more)
    second["namespaces"] = {name: 2 if name in own else 1 for name in second["namespaces"]}
    return report(0, **more), second


SLOW = {"1": 5.6, "65536": 32.0, "1048576": 380.0}


def test_two_ranks_that_share_memory_have_no_finding() -> None:
    assert diagnose(two()) == ()
    assert "1 B 0.40 us" in described(two())


def test_one_core_for_both_is_a_binding_collapse_and_not_called_slow() -> None:
    (finding,) = diagnose(two(cpus=[0], half_round_trip_us={"1": 3490.0, "65536": 1.0, "1048576": 1.0}))
    assert finding.startswith("binding collapse: both ranks may only use core 0")
    assert "--cpuset-cpus" in finding


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


def test_a_private_dev_shm_comes_first() -> None:
    first, second = two(("ipc",), half_round_trip_us=SLOW)
    (finding,) = diagnose((first, {**second, "shm": "30:1"}))
    assert "/dev/shm of its own" in finding


@pytest.mark.parametrize(
    ("mpi", "own", "parts"),
    [
        ("Open MPI v4.1.4", (), ("seccomp", "btl_vader_single_copy_mechanism none")),
        ("Open MPI v5.0.1", ("user",), ("two user namespaces", "smsc ^cma")),
        ("MPICH Version: 4.0.2", ("pid",), ("two pid namespaces", "UCX_TLS=^cma")),
        ("MPICH Version:      5.0.2", ("pid",), ("two pid namespaces", "MPIR_CVAR_CH4_CMA_ENABLE=0")),
    ],
)
def test_a_forbidden_single_copy_has_its_cause_and_the_option_of_its_mpi(
    mpi: str, own: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    (finding,) = diagnose(two(own, mpi=mpi, single_copy="EPERM"))
    assert all(part in finding for part in ("EPERM", *parts))


def test_two_machines_are_told_as_such() -> None:
    first, second = two()
    assert diagnose((first, {**second, "boot_id": "other"})) == (
        "the ranks are on two machines, which share no memory: start both on one",
    )


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


def test_lines_that_a_launcher_put_together_are_told_apart(tmp_path: Path) -> None:
    said = "".join(f"@tare-locality {json.dumps(report(rank))}" for rank in (1, 0))
    assert [each["rank"] for each in ask(launcher(tmp_path, said))] == [0, 1]


def test_the_error_of_a_launcher_that_starts_nothing_quotes_its_output(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="did not start two ranks") as caught:
        ask(launcher(tmp_path, "There are not enough slots", status=1))
    assert "--oversubscribe" in caught.value.remedy


def test_an_unknown_launcher_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no program nowhere"):
        locality.checked(["--", "nowhere", "-n", "2"])
    assert locality.checked([sys.executable]) == (sys.executable,)
