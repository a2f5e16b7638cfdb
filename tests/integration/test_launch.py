"""`tare launch` runs an application for real: its output, its exit status, its signals, and nothing left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from integration.live import Ended, Watch, compiled, ended, live, reached, start

pytestmark = live("docker", "podman", "cni", "mmdebstrap")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = compiled("where", tmp_path_factory.mktemp("app"))
    return made.rename(made.parent / "app")


def launched(app: Path, *arguments: str) -> Ended:
    return ended(start("launch", *arguments, cwd=app.parent))


@pytest.mark.parametrize(
    ("options", "hosts"),
    [
        (("-n", "2"), ["n0", "n0"]),
        (
            ("--runtime", "docker", "--network", "bridge", "--containers-per-node", "2", "--share", "none", "-n", "2"),
            ["d0c0", "d0c1"],
        ),
        (("--runtime", "docker", "--network", "macvlan", "--nodes", "2", "-n", "2"), ["d0", "d1"]),
    ],
    ids=["bare", "a pod each", "two nodes"],
)
def test_an_application_runs_where_it_was_asked_to_and_its_status_is_passed_on(
    app: Path, options: tuple[str, ...], hosts: list[str]
) -> None:
    result = launched(app, *options, "--", "./app", "7")
    assert result.status == 7, result.stderr
    wanted = [f"rank {rank} of 2 on {host} in {app.parent}" for rank, host in enumerate(hosts)]
    assert sorted(result.stdout.splitlines()) == wanted, result.stderr
    # on a busy machine Open MPI's launcher can lose a race with its own child, and says so
    assert [line for line in result.stderr.splitlines() if "Warning" in line and "setpgid" not in line] == []


@pytest.mark.parametrize(
    ("options", "others"),
    [
        (("--nodes", "2"), "n0 n1"),
        (("--runtime", "docker", "--nodes", "2"), "d0 d1"),
        (("--runtime", "docker", "--network", "bridge", "--containers-per-node", "2", "--share", "none"), "d0"),
        (("--runtime", "podman", "--network", "bridge", "--nodes", "2"), "n0 n1"),
    ],
)
def test_hosts_of_a_lab_know_their_own_names_and_those_of_the_nodes(
    app: Path, options: tuple[str, ...], others: str
) -> None:
    find = f"for host in $(hostname) {others}; do getent hosts $host || echo no $host; done"
    result = launched(app, *options, "-n", "2", "--", "sh", "-c", find)
    assert result.status == 0, result.stderr
    assert "no " not in result.stdout
    assert set(others.split()) <= {line.split()[1] for line in result.stdout.splitlines()}


def test_lines_say_whose_they_are_on_request(app: Path) -> None:
    result = launched(app, "-n", "2", "--by-rank", "--", "./app")
    assert result.status == 0, result.stderr
    assert sorted(line.split(":")[0] for line in result.stdout.splitlines()) == ["[1,0]<stdout>", "[1,1]<stdout>"]


def test_our_own_failures_have_the_codes_of_docker_run(app: Path) -> None:
    (app.parent / "text").write_text("no program")
    for words, status, said in (
        (("--", "./nowhere"), 127, "there is no program ./nowhere"),
        (("--", "no-such-program"), 127, "no-such-program"),
        (("--", "./text"), 126, "./text is not executable"),
        (("-n", "64", "--", "./app"), 125, "64 ranks need 64 cores"),
        (("-n", "3", "--nodes", "2", "--", "./app"), 125, "3 ranks cannot be divided equally among 2 nodes"),
        (("--runtime", "dockr", "--", "./app"), 125, "unknown runtime 'dockr'"),
    ):
        result = launched(app, *words)
        assert result.status == status, result.stderr
        assert said in result.stderr


def test_a_dry_run_prints_every_command_and_starts_no_rank(app: Path) -> None:
    result = launched(app, "--runtime", "docker", "--containers-per-node", "2", "-n", "2", "--dry-run", "--", "./app")
    assert result.status == 0, result.stderr
    assert "mpirun" in result.stdout
    assert result.stdout.count("docker exec") == 2
    assert "rank 0 of 2 on" not in result.stdout


@pytest.mark.parametrize(
    ("share", "expected", "lost"),
    [("pod", "neighbours share memory", False), ("none", "neighbours use the data network", True)],
)
def test_what_neighbours_talk_over_is_told_and_proven_on_request(
    app: Path, share: str, expected: str, lost: bool
) -> None:
    where = ("--runtime", "podman", "--network", "bridge", "--containers-per-node", "2", "--share", share, "-n", "2")
    result = launched(app, *where, "--prove", "--", "./app")
    assert result.status == 0, result.stderr
    assert "half round trip between ranks 0 and 1" in result.stderr
    assert expected in result.stderr
    assert ("transport loss: ranks 0 and 1" in result.stderr) is lost
    assert len(result.stdout.splitlines()) == 2, "the application did not run after the ping-pong"


@pytest.mark.parametrize("runtime", ["bare", "docker"])
def test_a_signal_ends_the_job_in_its_containers_too_and_nothing_is_left(app: Path, runtime: str) -> None:
    (app.parent / "written").unlink(missing_ok=True)
    watch = Watch()
    where = ("--runtime", runtime, "--containers-per-node", "2", "-n", "2")
    process = start("launch", *where, "--", "./app", "0", "stay", cwd=app.parent)
    lab = f"l{process.pid}"
    with watch.looking(lab):
        reached(process, (app.parent / "written").exists, "the application to run in a folder that it can write to")
        os.kill(process.pid, signal.SIGTERM)
        result = ended(process)
    assert result.status == 143, result.stderr
    assert "tare: the application was ended by SIGTERM" in result.stderr.splitlines()
    assert watch.left(lab) == []
