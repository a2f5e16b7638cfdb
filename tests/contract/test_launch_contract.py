"""Every way of launching that is known or planned fits one `Launch`, one launch map and one agent."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from contract.launch_bench import CORE, PROGRAM, WAYS, Bench, Way, every_way, hosts_of, launch_of, sentence
from factory_job import job_of
from tare.model import Placement
from tare.mpi.launch import Context, Entry, Host, Launch, bound
from tare.mpi.launch.agent import LOCAL_RANK
from tare.mpi.launch.job import group_contexts

# --- every way, through one contract ------------------------------------------------------------------------------


@every_way
def test_the_map_holds_all_that_the_launch_says_and_gives_entries_back_as_they_were(way: Way, bench: Bench) -> None:
    launch = launch_of(way)
    stored = json.loads(bench.map(launch).read_text())["hosts"]
    assert list(stored) == ["n0", "n1"]
    for host in launch.hosts:
        agent = launch.agent(host.name)
        assert stored[host.name]["agent"] == (None if agent is None else agent.as_json())
        assert stored[host.name]["ranks"] == [launch.enter(host.name, i).as_json() for i in range(host.ranks)]
        for entry, data in zip(host.enter, stored[host.name]["ranks"], strict=False):
            assert Entry(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}) == entry


@every_way
def test_every_rank_of_a_job_arrives_at_its_place_with_its_arguments_whole_and_knows_its_host(
    way: Way, bench: Bench
) -> None:
    launch = launch_of(way)
    bench.map(launch)
    argv = launch.argv(str(bench.agent))
    assert argv[: len(launch.head)] == launch.head
    assert argv[-len(PROGRAM) :] == PROGRAM
    assert launch.wraps_ranks == ("--rank" in argv) == (way.enter is not None), "only where they enter something"
    result = bench.run(*argv)
    assert (result.returncode, result.stderr) == (0, "")
    head, *rest = bench.records()
    assert (head["tool"], head["argv"][0]) == ("nsenter", "-n4711")
    apps = [record for record in rest if record["tool"] == "app"]
    assert [record["argv"] for record in apps] == [list(PROGRAM[1:])] * launch.ranks
    environments = [record["environment"] for record in apps]
    assert [environment["PMIX_RANK"] for environment in environments] == ["0", "1"] * 2
    assert [environment["TARE_HOST"] for environment in environments] == ["n0", "n0", "n1", "n1"]
    assert {environment["TARE_LAUNCH_MAP"] for environment in environments} == {str(bench.folder / "map.json")}
    passed = [(record["tool"], *record["argv"]) for record in rest if record["tool"] != "app"]
    wanted: list[tuple[str, ...]] = []
    for host in launch.hosts:
        for local in range(host.ranks):
            places = way.passes(host.name, local)
            wanted += places if local == 0 or way.agent is None else places[1:]  # a daemon passes its place once
    assert [tool[: len(place)] for tool, place in zip(passed, wanted, strict=True)] == wanted


@every_way
def test_a_daemon_does_not_get_what_is_meant_for_the_launcher_alone_and_a_host_without_an_agent_has_none(
    way: Way, bench: Bench
) -> None:
    bench.map(launch_of(way))
    result = bench.run(str(bench.agent), "n0", "daemon", environment={"OMPI_MCA_plm_rsh_agent": "/x", "HOME": "/h"})
    if way.agent is None:
        assert sentence(result) == "host n0 has no agent: its ranks are started by the scheduler"
        assert bench.records() == []
        return
    assert result.returncode == 0, result.stderr
    assert len(bench.records("daemon")) == 1
    for record in bench.records():
        assert not {"OMPI_MCA_plm_rsh_agent", "LAUNCHER_ONLY"} & set(record["environment"])


# --- what an entry does -------------------------------------------------------------------------------------------


def one_host(**entry: Any) -> Launch:
    host = Host(name="n0", ranks=1, agent=Entry(**entry), enter=(Entry(**entry),))
    return Launch(head=(), launcher=(), hosts=(host,), contexts=(Context(hosts=(host,), program=("app",)),))


def test_the_process_itself_joins_every_cgroup_before_it_becomes_the_daemon(bench: Bench) -> None:
    folders = [bench.folder / name for name in ("cpuset", "pids")]
    for folder in folders:
        folder.mkdir()
    bench.map(one_host(cgroups=tuple(map(str, folders)), argv=("nsenter", "--")))
    assert bench.run(str(bench.agent), "n0", "daemon").returncode == 0
    (entered,) = bench.records("nsenter")
    assert [(folder / "cgroup.procs").read_text() for folder in folders] == [str(entered["pid"])] * 2


@pytest.mark.parametrize(
    ("entry", "words", "argv"),
    [
        ({"cpus": (CORE,)}, ("daemon",), []),
        # One line for the shell of its place, unless the place has one of its own, which gets the words as they are.
        ({"argv": ("nsenter", "--")}, ("X=1;", "export", "X;", "daemon", "$X"), ["1"]),
        ({"argv": ("ssh", "-p", "9100", "n0"), "shell": False}, ("daemon", shlex.quote("a b")), ["a b"]),
    ],
)
def test_a_daemon_runs_on_the_cores_of_its_entry_and_gets_its_words_through_one_shell(
    entry: dict[str, Any], words: tuple[str, ...], argv: list[str], bench: Bench
) -> None:
    bench.map(one_host(**entry))
    assert bench.run(str(bench.agent), "n0", *words).returncode == 0
    (record,) = bench.records("daemon")
    assert record["argv"] == argv
    assert "cpus" not in entry or record["cpus"] == [CORE]


@pytest.mark.parametrize(
    ("argv", "carry", "kept"), [(("nsenter", "--"), False, "kept"), (("docker", "exec", "c0"), True, None)]
)
def test_a_rank_keeps_its_environment_but_only_variables_of_the_launch_and_the_mpi_go_into_a_place_that_forgets(
    argv: tuple[str, ...], carry: bool, kept: str | None, bench: Bench
) -> None:
    bench.map(one_host(argv=argv, carry=carry))
    given = {"TARE_HOST": "n0", "PMI_LOCAL_RANK": "0", "PMIX_NAMESPACE": "a b", "MINE": "kept"}
    assert bench.run(str(bench.agent), "--rank", "app", environment=given).returncode == 0
    found = bench.records("app")[0]["environment"]
    assert (found["PMIX_NAMESPACE"], found["PMI_LOCAL_RANK"], found.get("MINE")) == ("a b", "0", kept)


@pytest.mark.parametrize("variable", LOCAL_RANK)
def test_the_local_rank_is_understood_from_every_mpi(variable: str, bench: Bench) -> None:
    host = Host(name="n0", ranks=2, enter=tuple(Entry(argv=("docker", "exec", c)) for c in ("c0", "c1")))
    bench.map(Launch(head=(), launcher=(), hosts=(host,), contexts=()))
    result = bench.run(str(bench.agent), "--rank", "app", environment={"TARE_HOST": "n0", variable: "1"})
    assert result.returncode == 0, result.stderr
    began = bench.records("docker")[0]["argv"]
    assert (began[:2], began[-1]) == (["exec", "c1"], "app")


@pytest.mark.parametrize("variable", LOCAL_RANK)
def test_binding_understands_the_local_rank_from_every_mpi(variable: str, bench: Bench) -> None:
    argv = bound(("app", "a b"), [(4095,), (CORE,)])
    result = bench.run(*argv, environment={variable: "1"})
    assert result.returncode == 0, result.stderr
    assert [(record["argv"], record["cpus"]) for record in bench.records("app")] == [(["a b"], [CORE])]


def test_binding_without_a_local_rank_fails_instead_of_sharing_a_core(bench: Bench) -> None:
    result = bench.run(*bound(("app",), [(CORE,)]))
    assert result.returncode != 0
    assert "no MPI told the local rank" in result.stderr
    assert bench.records() == []


def test_one_entry_can_be_given_without_a_map(bench: Bench) -> None:
    entry = json.dumps(Entry(argv=("nsenter", "--"), cpus=(CORE,)).as_json())
    assert bench.run(str(bench.agent), "--entry", entry, "--", "daemon", "a b").returncode == 0
    assert [(r["argv"], r["cpus"]) for r in bench.records("daemon")] == [(["a b"], [CORE])]


@pytest.mark.parametrize("options", [("-x",), ("-l", "user"), ("-p", "22"), ("-o", "BatchMode=yes", "-q")])
def test_options_that_an_rsh_gets_before_the_host_are_passed_over(options: tuple[str, ...], bench: Bench) -> None:
    bench.map(one_host(argv=("nsenter", "--")))
    assert bench.run(str(bench.agent), *options, "n0", "daemon").returncode == 0
    assert len(bench.records("daemon")) == 1


# --- sides that differ --------------------------------------------------------------------------------------------


def parts_of(
    hosts: tuple[Host, ...], programs: Sequence[tuple[str, ...]], environments: Sequence[Mapping[str, str]] = ({},)
) -> tuple[Context, ...]:
    return group_contexts(job_of(hosts, Placement(), programs=programs, environments=environments).members)


def test_sides_that_differ_are_two_contexts_and_alike_sides_one() -> None:
    hosts = hosts_of(WAYS[0])
    alike = parts_of(hosts, (PROGRAM,))
    assert [(part.hosts, part.ranks) for part in alike] == [(hosts, 4)]
    other_program = parts_of(hosts, (PROGRAM, ("/opt/app",)))
    other_variables = parts_of(hosts, (PROGRAM,), ({}, {"LD_PRELOAD": "/x"}))
    for parts in (other_program, other_variables):
        assert [(part.hosts, part.ranks) for part in parts] == [((hosts[0],), 2), ((hosts[1],), 2)]


def test_contexts_keep_the_order_of_the_hosts_because_it_is_the_order_of_ranks() -> None:
    hosts = tuple(Host(name=f"n{i}", ranks=1) for i in range(4))
    parts = parts_of(hosts, (("a",), ("b",), ("b",), ("a",)))
    assert [host for part in parts for host in part.hosts] == list(hosts)
    assert [part.program for part in parts] == [("a",), ("b",), ("a",)]


def test_each_side_of_a_job_runs_its_own_program_through_its_own_entry(bench: Bench) -> None:
    bare, docker = hosts_of(WAYS[0])[0], hosts_of(WAYS[1])[1]
    hosts = (bare, docker)
    parts = parts_of(hosts, (("app", "bare"), ("app", "in the image")))
    parts = tuple(replace(part, options=(f"{part.hosts[0].name}=2",)) for part in parts)
    launch = Launch(head=(), launcher=("mpirun",), hosts=hosts, contexts=parts)
    bench.map(launch)
    result = bench.run(*launch.argv(str(bench.agent)))
    assert (result.returncode, result.stderr) == (0, "")
    apps = [(record["environment"]["TARE_HOST"], record["argv"]) for record in bench.records("app")]
    assert apps == [("n0", ["bare"])] * 2 + [("n1", ["in the image"])] * 2


def test_one_side_that_enters_wraps_the_ranks_of_both_and_the_other_starts_at_once(bench: Bench) -> None:
    plain, inside = hosts_of(WAYS[0])[0], hosts_of(WAYS[3])[1]
    launch = launch_of(WAYS[0], (plain, inside))
    assert launch.wraps_ranks
    assert launch.enter("n0", 1).is_empty
    bench.map(launch)
    assert bench.run(*launch.argv(str(bench.agent))).returncode == 0
    assert len(bench.records("app")) == 4
    assert {record["environment"]["TARE_HOST"] for record in bench.records("apptainer")} == {"n1"}


# --- what goes wrong is one sentence ------------------------------------------------------------------------------


def test_an_unknown_host_names_those_that_are_known(bench: Bench) -> None:
    bench.map(launch_of(WAYS[0]))
    assert sentence(bench.run(str(bench.agent), "n7", "daemon")) == "the launch map has no host n7; it has n0, n1"
    result = bench.run(str(bench.agent), "--rank", "app", environment={"TARE_HOST": "n7", "PMI_LOCAL_RANK": "0"})
    assert sentence(result) == "the launch map has no host n7; it has n0, n1"


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ((), {}, "no host given"),
        (("-x", "-l", "user"), {}, "no host given"),
        (("n0",), {}, "no command given for host n0"),
        (("--rank",), {"TARE_HOST": "n0", "PMI_LOCAL_RANK": "0"}, "no command given"),
        (("--rank", "app"), {"TARE_HOST": "n0"}, "no MPI set its local rank"),
        (
            ("--rank", "app"),
            {"TARE_HOST": "n0", "PMI_LOCAL_RANK": "2"},
            "the map has no local rank 2 on host n0: 2 in all",
        ),
        (("--rank", "app"), {"TARE_HOST": "n0", "PMI_LOCAL_RANK": "first"}, "first"),
        (("--rank", "missing-program"), {"TARE_HOST": "n0", "PMI_LOCAL_RANK": "0"}, "cannot start missing-program"),
        (("--entry", "{broken", "--", "app"), {}, "cannot read"),
        (("--entry", "[]", "--", "app"), {}, "cannot read"),
    ],
)
def test_what_the_agent_cannot_do_is_one_sentence_and_status_125(
    arguments: tuple[str, ...], environment: dict[str, str], words: str, bench: Bench
) -> None:
    bench.map(launch_of(WAYS[0]))
    assert words in sentence(bench.run(str(bench.agent), *arguments, environment=environment))
    assert bench.records("app") == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"hosts": 3}', '{"hosts": {"n0": 3}}', '{"hosts": {"n0": {}}}'])
def test_a_damaged_launch_map_is_one_sentence(text: str, bench: Bench) -> None:
    bench.map(text=text)
    sentence(bench.run(str(bench.agent), "n0", "daemon"))
    sentence(bench.run(str(bench.agent), "--rank", "app", environment={"TARE_HOST": "n0", "PMI_LOCAL_RANK": "0"}))


@pytest.mark.parametrize(
    ("entry", "variables", "words"),
    [
        ({}, {"TARE_LAUNCH_MAP": "/nowhere/map.json"}, "/nowhere/map.json"),
        ({"cgroups": ("/nowhere/tare/n0",)}, {}, "cannot join /nowhere/tare/n0"),
        ({"cpus": (4095,)}, {}, "4095"),
    ],
)
def test_a_map_a_cgroup_or_cores_that_are_not_there_are_named_and_no_daemon_runs(
    entry: dict[str, Any], variables: dict[str, str], words: str, bench: Bench
) -> None:
    bench.map(one_host(**entry))
    assert words in sentence(bench.run(str(bench.agent), "n0", "daemon", environment=variables))
    assert bench.records() == []


def test_an_agent_outside_a_launch_says_who_starts_it(bench: Bench) -> None:
    argv = (sys.executable, "-IS", str(bench.agent), "n0", "daemon")
    result = subprocess.run(argv, env={}, capture_output=True, text=True, check=False)
    assert "TARE_LAUNCH_MAP" in sentence(result)
    assert "started by tare's launcher" in result.stderr
