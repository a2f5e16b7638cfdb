"""Commands of a launch run on the first node, in order, until one answers otherwise; what has ended is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from nodes import make_node, make_pod
from tare.agent.upkeep import ended
from tare.cli import commands
from tare.model import Completed, Environment, Failed, Invalid, NodeCommand, Study, Trial, Workload
from tare.run import on_node
from tare.run.deploy.hosts import Deployed
from tare.store.writer import read_only
from tare.system.node import Client, Container, Endpoint, Node, Pod
from tare.system.node.cgroups import MARK, Group, Hierarchy
from tare.system.node.process_stat import fields_of, is_running, runs
from tare.system.process import Result
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


def pod(node: Node, client: Client = CLIENT) -> Pod:
    return replace(make_pod(node), endpoint=ENDPOINT, prefix=Path("/opt/tare"), client=client)


def here(**more: Any) -> Node:
    """Return a node that is this machine."""
    return make_node(pid=0, group=Group(path="", hierarchies=()), cores=(), boot_id=BOOT_ID, **more)


def up(client: Client = Client(), **node: Any) -> Deployed:  # noqa: B008  # it is frozen
    environment = Environment(name="bare", runtime="bare", network="host")
    return Deployed(environment=environment, pods=(pod(replace(here(), **node), client),))


def ran(*listed: NodeCommand, undo: tuple[tuple[str, ...], ...] = (), limit_s: float = 600.0, **more: Any) -> Result:
    workload = Workload(name="w", commands=listed, undo=undo, time_limit_s=limit_s)
    return on_node.run_commands(site(), up(**more), workload)


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("@tare ")) for line in result.stdout.splitlines()]


def said(result: Result) -> list[str]:
    return [record["complaint"] for record in records(result) if record["type"] == "answer"]


def entry_of(argv: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    at = argv.index("--entry")
    assert argv[at + 2] == "--"
    return json.loads(argv[at + 1]), argv[at + 3 :]


def test_a_command_enters_the_namespaces_and_cgroup_of_a_labs_node_and_is_started_by_another_machines_shell() -> None:
    hierarchy = Hierarchy(mountpoint=Path("/sys/fs/cgroup"), version=2)
    node = make_node(1, pid=77, group=Group(path="lab/n1", hierarchies=(hierarchy,)))
    shell = on_node.Shell(site=site(), pod=pod(node))
    entry, words = entry_of(shell.argv(("docker", "run", "--name={name}", "{image}", "{{.Id}}")))
    assert words == ("/usr/bin/docker", "run", "--name=tare-s-own", "tare/debian:1", "{{.Id}}")
    assert entry["argv"][:3] == ["nsenter", "-t", "77"]
    assert entry["cgroups"] == [f"/sys/fs/cgroup/{MARK}/lab/n1/host"]
    assert entry["cpus"] == [1]
    assert "via" not in entry
    shell = on_node.Shell(site=site(reach=lambda node: ("ssh", node.name)), pod=pod(here()))
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


def test_a_command_that_does_not_end_is_named_and_an_interrupt_or_its_end_undoes_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone = tmp_path / "undone"
    result = ran(NodeCommand(run=("sleep", "infinity")), undo=(("touch", str(undone)),), limit_s=0.2)
    assert result.timed_out
    assert result.at_limit == "sleep infinity"
    undone.unlink()
    monkeypatch.setattr(on_node, "_answer", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        ran(NodeCommand(run=("true",)), undo=(("touch", str(undone)),))
    assert undone.exists()


def test_a_program_that_is_missing_is_told(tmp_path: Path) -> None:
    (complaint,) = said(ran(NodeCommand(run=("no-such-program",))))
    assert "`no-such-program` ended with status 125" in complaint
    assert "No such file" in complaint


def test_on_another_node_or_with_another_daemon_nothing_runs_and_nothing_is_undone(tmp_path: Path) -> None:
    touched = (("touch", str(tmp_path / "x")),)
    result = ran(NodeCommand(run=touched[0]), undo=touched, boot_id="another")
    assert "commands for n0 do not run on it: its boot ID is another one" in records(result)[1]["refuted"]
    assert list(tmp_path.iterdir()) == []
    client = Client(holds=("sh", "-c", "echo no such container >&2; false"))
    result = ran(NodeCommand(run=touched[0]), undo=touched, client=client)
    refuted = records(result)[1]["refuted"]
    assert refuted.endswith("does not hold the environment's container: no such container")
    assert list(tmp_path.iterdir()) == []


# --- a study ------------------------------------------------------------------------------------------------------


def study(*listed: NodeCommand) -> Study:
    stated = known_study(rounds=1)
    environments = stated.environments[:1]
    workload = Workload(name="w", commands=listed, undo=(("true",),), time_limit_s=600.0)
    return replace(stated, environments=environments, workloads=(workload,), self_comparison=True)


def trials_of(stated: Study, folder: Path) -> list[Trial]:
    commands.run_plan(stated, folder)
    return list(read_only(folder).trials)


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


def test_a_launch_has_failed_with_one_sentence_if_a_command_answers_otherwise(tmp_path: Path) -> None:
    found = trials_of(study(NodeCommand(run=("echo", "\x1b"), line="yes")), tmp_path / "r")
    for trial in found:
        assert isinstance(trial.outcome, Failed)
        assert trial.outcome.reason == "`echo '\\x1b'` was expected to print a line like 'yes', but printed: \\x1b"


def test_a_launch_that_is_not_in_its_environment_is_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_node, "_refuted", lambda _: "another node")
    monkeypatch.setattr(on_node, "RUNTIMES", {"fake": SimpleNamespace(is_fake=False)})
    found = trials_of(study(NodeCommand(run=("true",))), tmp_path / "r")
    assert [trial.outcome for trial in found] == [Invalid(reason="another node")] * 2


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def deployed(pid: int, *containers: Container, container: str = "") -> tuple[Pod, ...]:
    pod = make_pod(make_node(), name="tare-s1-n0", pid=pid, container=container)
    return (replace(pod, endpoint=ENDPOINT, prefix=Path("/opt/tare"), containers=containers),)


def test_nothing_is_gone_while_first_processes_run_or_where_there_are_none(living: subprocess.Popen[bytes]) -> None:
    assert ended(deployed(living.pid, Container(name="c0", enter=(), pid=living.pid))) is None
    assert ended(deployed(living.pid, Container(name="c0", enter=()))) is None
    assert ended(deployed(0)) is None


def test_what_has_ended_is_named_also_one_of_several_containers(living: subprocess.Popen[bytes]) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    both = (Container(name="c0", enter=(), pid=living.pid), Container(name="c1", enter=(), pid=dead.pid))
    assert ended(deployed(living.pid, *both, container="tare-s1-n0")) == "the container c1 on n0 has ended"
    assert runs(living.pid)
    living.kill()
    os.waitid(os.P_PID, living.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie
    assert not runs(living.pid)
    assert ended(deployed(living.pid, container="tare-s1-n0")) == "the container tare-s1-n0 on n0 has ended"
    assert ended(deployed(living.pid)) == "what holds the pod tare-s1-n0 on n0 has ended"


@pytest.mark.parametrize(
    ("stat", "runs_on"),
    [
        ("5 (sh) S 1 5 5 0 -1 4194560 99 0 0 0 0 0 0 0 20 0 1 0 77", True),
        ("5 (a) Z (b)) R 1 5 5 0 -1 4194560 99 0 0 0 0 0 0 0 20 0 1 0 77", True),
        ("5 (sh) Z 1 5 5 0 -1 4228364 99 0 0 0 0 0 0 0 20 0 1 0 77", False),
        # the first of its namespace: it waits for the others in it
        ("5 (sleep) S 1 5 5 0 -1 4194564 99 0 0 0 0 0 0 0 20 0 1 0 77", False),
        ("5 (sh) Z 1 5 5 0 -1 4228364 99 0 0 0 0 0 0 0 20 0 2 0 77", True),  # another thread of it computes
    ],
)
def test_a_process_on_its_way_out_has_ended(stat: str, runs_on: bool) -> None:
    assert is_running(fields_of(stat)) == runs_on
