"""Commands of a launch run on the first node, in order, until one answers otherwise; what undoes them always runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodes import make_node, make_pod
from tare.cli import commands
from tare.containers.client import Client
from tare.deploy.hosts import Deployed
from tare.host.process import Result
from tare.model import Completed, Environment, Failed, Invalid, NodeCommand, Study, Trial, Workload
from tare.node import Endpoint, Node
from tare.node.cgroups import MARK, Group, Hierarchy
from tare.node_service.sides import Side
from tare.run import on_node
from tare.store.writer import read_only
from tare.workloads import WORKLOADS
from unit.runs import known_study

ENDPOINT = Endpoint(address="10.0.0.1", prefix=24, interface="eth0", mtu=1500)
BOOT_ID = Path(on_node.BOOT_ID).read_text().strip()
CLIENT = Client(
    programs={"docker": "/usr/bin/docker"},
    variables={"DOCKER_HOST": "unix:///run/docker.sock"},
    words={"image": "tare/debian:1", "name": "tare-s-own"},
    holds=("docker", "container", "inspect", "pod"),
)


def site(**more: Any) -> Any:
    return SimpleNamespace(**({"reach": lambda _: (), "allocation": None, "adopt": lambda _: None} | more))


def side(node: Node, client: Client = CLIENT) -> Side:
    return Side(pod=make_pod(node), endpoint=ENDPOINT, prefix=Path("/opt/tare"), client=client)


def here(**more: Any) -> Node:
    """Return a node that is this machine."""
    return make_node(pid=0, group=Group(path="", hierarchies=()), cores=(), boot_id=BOOT_ID, **more)


def up(client: Client = Client(), **node: Any) -> Deployed:  # noqa: B008  # it is frozen
    environment = Environment(name="bare", runtime="bare", network="host")
    return Deployed(environment=environment, sides=(side(replace(here(), **node), client),))


def ran(*listed: NodeCommand, undo: tuple[tuple[str, ...], ...] = (), limit_s: float = 600.0, **more: Any) -> Result:
    workload = Workload(name="w", commands=listed, undo=undo, time_limit_s=limit_s)
    return on_node.run_commands(site(), up(**more), workload)


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("@tare ")) for line in result.stdout.splitlines()]


def said(result: Result) -> list[str]:
    return [record["complaint"] for record in records(result) if record["type"] == "answer"]


# --- the argv -----------------------------------------------------------------------------------------------------


def entry_of(argv: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    at = argv.index("--entry")
    assert argv[at + 2] == "--"
    return json.loads(argv[at + 1]), argv[at + 3 :]


def test_on_a_node_of_a_lab_a_command_enters_its_namespaces_and_its_cgroup() -> None:
    hierarchy = Hierarchy(mountpoint=Path("/sys/fs/cgroup"), version=2)
    node = make_node(1, pid=77, group=Group(path="lab/n1", hierarchies=(hierarchy,)))
    shell = on_node.Shell(site=site(), side=side(node))
    entry, words = entry_of(shell.argv(("docker", "run", "--name={name}", "{image}", "{{.Id}}")))
    assert words == ("/usr/bin/docker", "run", "--name=tare-s-own", "tare/debian:1", "{{.Id}}")
    assert entry["argv"][:3] == ["nsenter", "-t", "77"]
    assert entry["cgroups"] == [f"/sys/fs/cgroup/{MARK}/lab/n1/host"]
    assert entry["cpus"] == [1]
    assert "via" not in entry


def test_on_another_machine_a_command_is_started_by_its_shell() -> None:
    shell = on_node.Shell(site=site(reach=lambda node: ("ssh", node.name)), side=side(here()))
    entry, words = entry_of(shell.argv(("true",)))
    assert entry["via"] == ["ssh", "n0"]
    assert (entry["argv"], entry["cgroups"], words) == ([], [], ("true",))


# --- a launch on this machine -------------------------------------------------------------------------------------


def test_commands_run_in_order_and_what_undoes_them_after_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write = ("sh", "-c", 'echo "$1" >> "$0"', str(log))
    result = ran(
        NodeCommand(run=(*write, "first")),
        NodeCommand(run=("cat", str(log)), line="first"),
        NodeCommand(run=(*write, "second")),
        undo=((*write, "undone"), ("false",), (*write, "all")),
    )
    assert said(result) == ["", "", ""]
    assert log.read_text().split() == ["first", "second", "undone", "all"]
    three = Workload(name="w", commands=(NodeCommand(run=("a",)),) * 3)
    (metric,) = WORKLOADS["commands"].parse(three, result.stdout).metrics
    assert 0 < metric.value < result.elapsed_s


def test_after_an_answer_that_is_not_as_expected_no_further_command_runs_but_what_undoes_does(tmp_path: Path) -> None:
    result = ran(
        NodeCommand(run=("echo", "no"), line="yes"),
        NodeCommand(run=("touch", str(tmp_path / "further"))),
        undo=(("touch", str(tmp_path / "undone")),),
    )
    assert said(result) == ["`echo no` was expected to print a line like 'yes', but printed: no"]
    assert [path.name for path in tmp_path.iterdir()] == ["undone"]


def test_a_command_is_repeated_until_it_answers_as_expected_and_no_longer_than_its_time(tmp_path: Path) -> None:
    count = ("sh", "-c", 'echo x >> "$0"; wc -l < "$0"', str(tmp_path / "count"))
    result = ran(NodeCommand(run=count, line="3", within_s=600.0))
    assert said(result) == [""]
    assert [record["tries"] for record in records(result) if record["type"] == "answer"] == [3]
    (complaint,) = said(ran(NodeCommand(run=("false",), within_s=0.5)))
    assert complaint == "`false` ended with status 1, not 0, and printed: nothing"


def test_a_command_that_does_not_end_is_ended_and_named_and_what_undoes_runs(tmp_path: Path) -> None:
    undone = tmp_path / "undone"
    result = ran(NodeCommand(run=("sleep", "infinity")), undo=(("touch", str(undone)),), limit_s=0.2)
    assert result.timed_out
    assert result.at_limit == "sleep infinity"
    assert undone.exists()


def test_an_interrupt_undoes_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undone = tmp_path / "undone"

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(on_node, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ran(NodeCommand(run=("true",)), undo=(("touch", str(undone)),))
    assert undone.exists()


def test_a_program_that_is_missing_is_told(tmp_path: Path) -> None:
    (complaint,) = said(ran(NodeCommand(run=("no-such-program",))))
    assert "`no-such-program` ended with status 125" in complaint
    assert "No such file" in complaint


# --- the treatment ------------------------------------------------------------------------------------------------


def test_on_another_node_nothing_runs_and_nothing_is_undone(tmp_path: Path) -> None:
    touched = (("touch", str(tmp_path / "x")),)
    result = ran(NodeCommand(run=touched[0]), undo=touched, boot_id="another")
    assert "commands for n0 do not run on it: its boot ID is another one" in records(result)[1]["refuted"]
    assert list(tmp_path.iterdir()) == []


def test_with_another_daemon_nothing_runs_and_nothing_is_undone(tmp_path: Path) -> None:
    touched = (("touch", str(tmp_path / "x")),)
    client = Client(holds=("sh", "-c", "echo no such container >&2; false"))
    result = ran(NodeCommand(run=touched[0]), undo=touched, client=client)
    refuted = records(result)[1]["refuted"]
    assert refuted.endswith("does not hold the environment's container: no such container")
    assert list(tmp_path.iterdir()) == []


# --- a study ------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep leftovers of other runs on this machine out of the way."""
    monkeypatch.setattr("tare.node_service.clean.hierarchies", lambda: ())
    monkeypatch.setattr("tare.node_service.clean.run_folder", lambda: tmp_path / "run")
    monkeypatch.setattr("tare.node_service.clean._holder_of", lambda entry: None)


def study(*listed: NodeCommand) -> Study:
    stated = known_study(rounds=1)
    environments = stated.environments[:1]
    workload = Workload(name="w", commands=listed, undo=(("true",),), time_limit_s=600.0)
    return replace(stated, environments=environments, workloads=(workload,), self_comparison=True)


def trials_of(stated: Study, folder: Path) -> list[Trial]:
    commands.run_plan(stated, folder)
    return list(read_only(folder).trials)


@pytest.mark.usefixtures("own_state")
def test_a_launch_is_completed_if_every_command_answers_as_expected(tmp_path: Path) -> None:
    name = NodeCommand(run=("echo", "{name}"), line="tare-*-own")
    found = trials_of(study(name, NodeCommand(run=("true",))), tmp_path / "r")
    assert len(found) == 2
    for trial in found:
        assert isinstance(trial.outcome, Completed), trial.outcome
        assert [metric.judged for metric in trial.outcome.metrics] == [False]
        assert trial.unproven == trial.partly_proven == ""
        assert trial.ranks == ()
        assert list(trial.argv)[2:] == [";", "true"]
        assert trial.argv[1].startswith("tare-")


@pytest.mark.usefixtures("own_state")
def test_a_launch_has_failed_with_one_sentence_if_a_command_answers_otherwise(tmp_path: Path) -> None:
    found = trials_of(study(NodeCommand(run=("echo", "\x1b"), line="yes")), tmp_path / "r")
    for trial in found:
        assert isinstance(trial.outcome, Failed)
        assert trial.outcome.reason == "`echo '\\x1b'` was expected to print a line like 'yes', but printed: \\x1b"


@pytest.mark.usefixtures("own_state")
def test_a_launch_that_is_not_in_its_environment_is_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_node, "_refuted", lambda _: "another node")
    monkeypatch.setattr(on_node, "RUNTIMES", {"fake": SimpleNamespace(is_fake=False)})
    found = trials_of(study(NodeCommand(run=("true",))), tmp_path / "r")
    assert [cast("Invalid", trial.outcome).reason for trial in found] == ["another node"] * 2
    assert all(isinstance(trial.outcome, Invalid) for trial in found)
