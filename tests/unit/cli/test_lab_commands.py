"""A lab or network that stays is remembered between commands; whatever is wrong is a sentence with the remedy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tare.cli import lab_commands, lab_state, network_commands
from tare.cli.network_commands import described, needs_of, network_list, network_up
from tare.cli.options import LabOptions, NetworkOptions
from tare.clusters import lab
from tare.errors import InfrastructureError, RefusedError, StudyError, UsageError
from tare.model import LabSpec
from tare.networks import NETWORKS
from tare.system.node.cgroups import Group
from tare.system.node.owners import boot_id, owner
from unit.labs import kept, made

GONE = 2**22 + 1
Became = list[tuple[tuple[str, ...], dict[str, str]]]
Ups = list[tuple[str, LabSpec]]


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lab_commands, "run_folder", lambda: tmp_path)
    monkeypatch.setattr(lab_state, "run_folder", lambda: tmp_path)
    monkeypatch.setattr(network_commands, "run_folder", lambda: tmp_path)
    monkeypatch.setattr(network_commands, "become_root", lambda: pytest.fail("nothing may be made"))
    monkeypatch.setattr(lab_commands, "made_run_folder", lambda: tmp_path)
    monkeypatch.setattr(lab_commands, "bases", lambda: {"/cg": "job_1"})
    monkeypatch.setattr(lab_state, "group", lambda path, noted=None: Group(path=path, hierarchies=()))
    monkeypatch.setattr(lab_commands.os, "geteuid", lambda: 0)
    monkeypatch.setattr(lab_commands, "become_root", lambda: None)
    monkeypatch.setattr(lab_commands, "is_real_root", lambda: True)
    monkeypatch.setattr("tare.runtimes.containers.held_namespaces.is_real_root", lambda: True)
    return tmp_path


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> Became:
    seen: Became = []
    monkeypatch.setattr(lab_commands, "replace", lambda argv, env=None: seen.append((tuple(argv), dict(env or {}))))
    monkeypatch.setattr(lab_commands.os, "sched_setaffinity", lambda pid, cores: None)
    return seen


def bring_up(name: str = "lab", **more: Any) -> None:
    lab_commands.lab_up(LabOptions(name=name, **more))


@pytest.mark.parametrize("docker", [False, True])
def test_a_lab_comes_back_from_its_state_as_it_was(docker: bool) -> None:
    value = made(docker=docker)
    assert lab_state._from_json(json.loads(json.dumps(lab_state.as_json(value)))) == value


def test_an_unknown_lab_says_how_to_start_one_and_a_second_one_is_not_started(run: Path, ups: Ups) -> None:
    for command in (lambda: lab_commands.lab_down("other"), lambda: lab_commands.lab_exec("other", "n0", ["true"])):
        with pytest.raises(UsageError, match=r"there is no lab other\n  start one with `tare lab up`"):
            command()
    kept(run, made())
    with pytest.raises(UsageError, match="the lab lab is already up"):
        bring_up()
    assert ups == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": "lab", "nodes": 3}', "null"])
def test_the_error_for_a_damaged_state_says_how_to_remove_the_lab(text: str, run: Path) -> None:
    (kept(run, made()) / lab_state.STATE).write_text(text)
    for command in (lambda: lab_commands.lab_down("lab"), lab_commands.lab_status):
        with pytest.raises(InfrastructureError, match=r"is damaged.*\n  remove the lab with `tare clean`"):
            command()


@pytest.fixture
def ups(monkeypatch: pytest.MonkeyPatch) -> Ups:
    seen: Ups = []

    def up(name: str, spec: LabSpec, **_: object) -> lab.Lab:
        seen.append((name, spec))
        return made(name)

    monkeypatch.setattr(lab_commands.lab, "up", up)
    return seen


def test_a_lab_that_is_up_is_kept_and_shown(run: Path, ups: Ups, capsys: pytest.CaptureFixture[str]) -> None:
    bring_up(link_rate="10Gbit", cores=1, segmented=True)
    assert ups == [("lab", LabSpec(nodes=2, cores_per_node=1, link_rate_bps=10**10, segmented=True))]
    assert json.loads((run / "lab-stays" / "owner.json").read_text()) == {
        "lab": "lab", "stays": True, "boot_id": boot_id(), "cgroups": {"/cg": "job_1"},
    }  # fmt: skip
    assert "lab lab: 2 nodes, up" in capsys.readouterr().out
    lab_commands.lab_status()
    assert "n1  cores 1  control 10.213.0.2  data0 10.214.0.2/24" in capsys.readouterr().out
    lab_commands.lab_status(as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["up"], shown["nodes"][1]["name"]) == ("lab", True, "n1")


def test_leftovers_of_a_dead_lab_are_removed_before_a_new_one(
    run: Path, ups: Ups, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(run, made(pid=GONE))
    removed: list[str] = []
    monkeypatch.setattr(lab_commands.clean, "remove_lab", removed.append)
    bring_up()
    assert (removed, [name for name, _ in ups]) == (["lab"], ["lab"])


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        *(("name", name, "is not a valid name of a lab")
          for name in ("", "a-b", "a/b", "../x", "eleven-long", "averylongname", "é", "a b")),
        *(("link_rate", rate, "--link-rate") for rate in ("fast", "10Gbyte", "-1Gbit")),
    ],
)  # fmt: skip
def test_a_name_or_link_rate_that_is_not_valid_is_refused_before_anything_is_made(
    option: str, value: str, words: str, run: Path, ups: Ups
) -> None:
    with pytest.raises(UsageError, match=words):
        bring_up(**{option: value})
    assert (ups, list(run.iterdir())) == ([], [])


@pytest.mark.parametrize("error", [InfrastructureError("no veth here"), KeyboardInterrupt()])
def test_a_lab_that_is_not_made_leaves_nothing(
    error: BaseException, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(lab_commands.lab, "up", mock.Mock(side_effect=error))
    monkeypatch.setattr(lab_commands.clean, "remove_lab", removed.append)
    with pytest.raises(type(error)):
        bring_up()
    assert removed == ["lab"]
    assert list(run.iterdir()) == []


def test_an_ordinary_user_is_refused_a_docker_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_commands, "is_real_root", lambda: False)
    with pytest.raises(UsageError, match="a Docker daemon needs root"):
        bring_up(docker=True)


def test_an_ordinary_user_becomes_root_of_a_user_namespace_before_anything_is_made(
    run: Path, ups: Ups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_commands, "become_root", mock.Mock(side_effect=SystemExit))
    with pytest.raises(SystemExit):
        bring_up()
    assert (ups, list(run.iterdir())) == ([], [])


def test_an_ordinary_user_enters_the_head_through_the_user_namespace_of_the_lab(
    became: Became, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(run, made())
    monkeypatch.setattr(lab_commands.os, "geteuid", lambda: 1000)
    lab_commands.lab_exec("lab", "head", ["true"])
    assert became[0][0][:5] == ("nsenter", "-t", str(os.getpid()), "--user", "--preserve-credentials")


def test_a_command_enters_its_node_or_the_head_with_the_daemon_of_the_node(became: Became, run: Path) -> None:
    kept(run, made())
    lab_commands.lab_exec("lab", "n1", ["--", "ip", "link"])
    ((argv, variables),) = became
    assert argv[:6] == ("nsenter", "-t", str(os.getpid()), "--all", "--", "/bin/sh")
    assert argv[-3:] == (str(Path.cwd()), "ip", "link")
    assert "DOCKER_HOST" not in variables or variables["DOCKER_HOST"] == os.environ.get("DOCKER_HOST")
    lab_commands.lab_exec("lab", "head", ["mpirun", "x"])
    assert became[1][0] == ("nsenter", f"--net=/proc/{os.getpid()}/ns/net", "--", "mpirun", "x")
    kept(run, made("other", docker=True))
    lab_commands.lab_exec("other", "n0", ["docker", "ps"])
    assert became[2][1]["DOCKER_HOST"] == "unix:///run/docker.sock"


def test_an_unknown_node_names_the_known_ones_and_a_broken_lab_how_to_remove_it(became: Became, run: Path) -> None:
    kept(run, made())
    with pytest.raises(UsageError, match=r"the lab lab has no node n7\n  its nodes: n0, n1, head"):
        lab_commands.lab_exec("lab", "n7", ["true"])
    assert became == []
    kept(run, made("gone", pid=GONE))
    broken = r"is broken: one of its processes has ended\n  remove the rest with `tare lab down --name gone`"
    with pytest.raises(InfrastructureError, match=broken):
        lab_commands.lab_exec("gone", "n0", ["true"])
    assert became == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--name", "zz", "--", "true"], "the option --name comes after the node"),
        (["-v"], "the option -v comes after the node"),
        (["--"], "no command follows the node"),
        ([], "no command follows the node"),
    ],
)
def test_an_option_or_nothing_after_the_node_is_refused_with_the_usage(words: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        lab_commands.command_after_node(words, "tare lab exec")
    assert caught.value.remedy.endswith("tare lab exec [--name NAME] NODE -- COMMAND")


def test_the_options_of_a_command_are_its_own_and_only_dashes_before_it_are_taken_away() -> None:
    assert lab_commands.command_after_node(["--", "ls", "--all"], "tare lab exec") == ["ls", "--all"]
    assert lab_commands.command_after_node(["ls", "--", "-l"], "tare lab exec") == ["ls", "--", "-l"]


def test_the_status_shows_no_lab_or_a_broken_one(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    lab_commands.lab_status()
    assert capsys.readouterr().out == "no lab is up\n"
    kept(run, made(pid=GONE))
    lab_commands.lab_status()
    assert "broken: one of its processes has ended; remove the rest with `tare lab down`" in capsys.readouterr().out


def test_a_lab_that_is_taken_down_is_forgotten(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept(run, made(pid=GONE))
    ended: list[str] = []
    monkeypatch.setattr(lab_commands.lab, "down", lambda value: ended.append(value.name))
    lab_commands.lab_down("lab")
    assert ended == ["lab"]
    assert not folder.exists()


def noted(run: Path, **more: object) -> None:
    """Note that a network is up on the lab `net`."""
    folder = run / "net-network"
    folder.mkdir()
    pods = [{"name": "n0", "runtime": "docker", "pid": 1, "enter": ["enter", "n0"]}]
    (folder / network_commands.STATE).write_text(json.dumps({**owner(), "pods": pods, **more}))


def test_every_network_is_listed_with_what_it_is_and_needs_or_why_it_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network_list()
    told = capsys.readouterr().out
    for name, network in NETWORKS.items():
        assert (f"\n{name}: " in f"\n{told}") == (not name.startswith("fake"))
        assert (network.product in told) == (not name.startswith("fake"))
    assert "cni:PATH" in told
    assert "${cidr}" in told
    monkeypatch.setattr(type(NETWORKS["bridge"]), "probe", lambda self: "no bridge here")
    assert described("bridge", NETWORKS["bridge"])[0] == "bridge: unavailable: no bridge here"


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


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        (NetworkOptions(network="brdge"), StudyError, "did you mean bridge?"),
        (NetworkOptions(network="bridge", runtime="dockr"), StudyError, "did you mean docker?"),
        (NetworkOptions(network="overlay"), RefusedError, "wired by Docker itself"),
        (NetworkOptions(network="pasta"), RefusedError, "long messages stall"),
        (NetworkOptions(network="fake", runtime="fake"), RefusedError, "no network to try"),
        (NetworkOptions(network="bridge", name="a-b"), UsageError, "is not a valid name of a lab"),
        (NetworkOptions(network="cni:/nowhere/x.conf"), RefusedError, "/nowhere/x.conf not found"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    wanted: NetworkOptions, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        network_up(wanted)


def test_a_network_on_which_nothing_is_up_says_what_makes_one(run: Path) -> None:
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


def test_a_second_network_on_one_lab_is_refused(run: Path) -> None:
    noted(run)
    with pytest.raises(UsageError, match="already up on the lab net"):
        network_up(NetworkOptions(network="host"))


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
    monkeypatch.setattr(lab_state.os, "kill", lambda pid, number: killed.append(pid))
    monkeypatch.setattr(network_commands, "DOWN_LIMIT_S", 0.05)
    with pytest.raises(InfrastructureError, match="was not removed within"):
        network_commands.network_down("net")
    assert killed == [os.getpid()]
