"""`tare network`: what it lists, and that whatever is wrong is a sentence with the remedy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tare.cli import network_commands
from tare.cli.network_commands import Wanted, described, needs_of, network_list, network_up
from tare.cluster.lab_site import owner
from tare.errors import InfrastructureError, RefusedError, StudyError, UsageError
from tare.networks import NETWORKS


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(network_commands, "run_folder", lambda: tmp_path)
    monkeypatch.setattr(network_commands, "become_root", lambda: pytest.fail("nothing may be made"))
    return tmp_path


def noted(run: Path, name: str = "net", **more: object) -> None:
    folder = run / f"{name}-network"
    folder.mkdir()
    pods = [{"name": "n0", "runtime": "docker", "pid": 1, "enter": ["enter", "n0"]}]
    (folder / network_commands.STATE).write_text(json.dumps({**owner(), "pods": pods, **more}))


def test_every_network_is_listed_with_what_it_is_and_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    network_list()
    told = capsys.readouterr().out
    for name, network in NETWORKS.items():
        assert (f"\n{name}: " in f"\n{told}") == (not name.startswith("fake"))
        assert (network.product in told) == (not name.startswith("fake"))
    assert "cni:PATH" in told
    assert "${cidr}" in told


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("host", "the data NIC of its node, shared; any runtime"),
        ("bridge", "a data NIC of its own; any runtime but enroot, sarus, sarus-mpi, shifter"),
        ("overlay", "a Docker daemon on each node; only with runtime docker; at least two nodes"),
        ("docker-default", "a Docker daemon on each node; only with runtime docker; one node only"),
        ("pasta", "no data NIC of its own; any runtime but enroot, sarus, sarus-mpi, shifter; one node only"),
    ],
)
def test_the_requirements_of_a_network_are_listed_in_words(name: str, words: str) -> None:
    assert needs_of(name, NETWORKS[name]) == words


def test_a_network_that_is_missing_is_listed_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(NETWORKS["bridge"]), "probe", lambda self: "no bridge here")
    assert described("bridge", NETWORKS["bridge"])[0] == "bridge: unavailable: no bridge here"


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        (Wanted(network="brdge"), StudyError, "did you mean bridge?"),
        (Wanted(network="bridge", runtime="dockr"), StudyError, "did you mean docker?"),
        (Wanted(network="overlay"), RefusedError, "wired by Docker itself"),
        (Wanted(network="pasta"), RefusedError, "long messages stall"),
        (Wanted(network="fake", runtime="fake"), RefusedError, "no network to try"),
        (Wanted(network="bridge", name="a-b"), UsageError, "is not a valid name of a lab"),
        (Wanted(network="cni:/nowhere/x.conf"), RefusedError, "/nowhere/x.conf not found"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(wanted: Wanted, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        network_up(wanted)


def test_a_second_network_on_one_lab_is_refused(run: Path) -> None:
    noted(run)
    with pytest.raises(UsageError, match="already up on the lab net"):
        network_up(Wanted(network="host"))


def test_commands_on_a_network_that_is_not_up_say_what_makes_one(run: Path) -> None:
    for command in (
        lambda: network_commands.network_down("net"),
        lambda: network_commands.network_exec("net", "n0", ["true"]),
    ):
        with pytest.raises(UsageError, match="no network is up on the lab net") as caught:
            command()
        assert "tare network up" in caught.value.remedy
    noted(run, start=1)  # whoever had this number has ended
    with pytest.raises(UsageError, match="no network is up"):
        network_commands.network_down("net")


def test_a_command_is_run_in_the_pod_on_a_node(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted(run)
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr(network_commands.process, "replace", lambda argv: started.append(tuple(argv)))
    network_commands.network_exec("net", "n0", ["--", "ip", "a"])
    assert started == [("enter", "n0", "ip", "a")]
    with pytest.raises(UsageError, match="no pod on n7") as caught:
        network_commands.network_exec("net", "n7", ["ip"])
    assert caught.value.remedy == "its nodes: n0"


def test_a_network_that_is_not_removed_in_time_is_an_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted(run)
    killed: list[int] = []
    monkeypatch.setattr(network_commands.os, "kill", lambda pid, number: killed.append(pid))
    monkeypatch.setattr(network_commands, "DOWN_LIMIT_S", 0.05)
    with pytest.raises(InfrastructureError, match="was not removed within"):
        network_commands.network_down("net")
    assert killed == [os.getpid()]
