"""Whatever is wrong in a study file, or too large, is told with its place before anything is expanded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import RefusedError, StudyError
from tare.model import NodeCommand, Placement, Workload
from tare.model.placement import place
from tare.model.topology import NodeCores, Topology
from tare.study import load, parse
from unit.study_texts import ENVIRONMENTS, WORK


def message_of(text: str, file: str = "s.yaml") -> str:
    with pytest.raises(StudyError) as caught:
        parse(text, file=file)
    return str(caught.value)


BASE = ENVIRONMENTS + WORK
WRONG: list[tuple[str, str, str]] = [
    (
        f"environments: {{bare: {{mpi: mpich}}, docker: {{mpi: mpich, image: debian-openmpi}}}}{WORK}",
        "1:57",
        "debian-openmpi contains openmpi, which mpich cannot start: use debian-mpich, or mpi: openmpi",
    ),
    (f"environments: {{bare: {{sides: left}}}}{WORK}", "1:23", "value 'left' (allowed: both, sender, receiver)"),
    (f"foo: 1{BASE}", "1:1", "foo: unknown key 'foo' (allowed: name, cluster"),
    (f"baselne: bare{BASE}", "1:1", "did you mean baseline?"),
    (f"environments: [bare, docker+foo]{WORK}", "1:22", "environments.docker+foo.network: unknown network 'foo'"),
    (f"environments: [bare, dockr]{WORK}", "1:22", "environments.dockr.runtime: unknown runtime 'dockr'"),
    (f"environments: [bare, bare]{WORK}", "1:22", "given twice; first in line 1"),
    (f"environments: [bare, bare+host]{WORK}", "1:22", "environments.bare+host: this is the same as bare"),
    (f"environments: {{a: {{network: host}}}}{WORK}", "1:16", "environments.a.runtime: unknown runtime 'a'"),
    (f"environments: {{bare: , a: {{runtime: dock}}}}{WORK}", "1:28", "a.runtime: unknown runtime 'dock'; did you"),
    (f"environments: {{bare: , docker+host: {{network: bridge}}}}{WORK}", "1:38", "the name says host, but this says"),
    (f"environments: {{bare: , docker: {{image: false}}}}{WORK}", "1:33", "docker always runs from an image"),
    (f"environments: {{bare: , bare+image: {{image: false}}}}{WORK}", "1:37", "the name says +image"),
    (f"environments: {{bare: {{image: no}}}}{WORK}", "1:23", "write true for the default image"),
    (f"environments: {{bare: {{image: debian}}}}{WORK}", "1:23", "unknown image 'debian'; did you mean debian-mpich"),
    (f"environments: {{bare: , a/b: docker}}{WORK}", "1:24", "'a/b' is not a valid name"),
    (f"environments: [bare, [docker]]{WORK}", "1:22", "an environment is a name or"),
    (
        f"environments: bare, docker{WORK}",
        "1:1",
        "this must be a list ([bare, docker]) or a mapping (`name: ...` lines)",
    ),
    (f"environments: 3{WORK}", "1:1", "environments: this must be a mapping (`name: ...` lines), not 3"),
    (f"environments: {WORK}", "1:1", "environments: this key has no value"),
    (f"environments: []{WORK}", "1:1", "environments: this is empty"),
    (ENVIRONMENTS, "2:1", "workloads: this key is required"),
    (f"baseline: bear{BASE}", "1:1", "'bear' is not one of the environments; did you mean bare?"),
    (f"a_a: no{BASE}", "1:1", "a_a: this must be true or false, not 'no'"),
    (f"a_a: false\nenvironments: [bare]{WORK}", "2:1", "leaves nothing to compare"),
    (f"margin: 0%{BASE}", "1:1", "margin: this must be above 0, not '0%'"),
    (f"margin: -2%{BASE}", "1:1", "margin: this must be above 0"),
    (f"margin: 2{BASE}", "1:1", "write 2% or 0.02"),
    (f"limit: 0{BASE}", "1:1", "limit: this must be above 0"),
    (f"repetition: {{rounds: 0}}{BASE}", "1:14", "repetition.rounds: this must be at least 1, not 0"),
    (f"repetition: {{rounds: 2.5}}{BASE}", "1:14", "repetition.rounds: this must be a whole number, not 2.5"),
    (f"repetition: {{rounds: '3'}}{BASE}", "1:14", "repetition.rounds: this must be a whole number, not '3'"),
    (f"repetition: {{rounds: 9, max_rounds: 8}}{BASE}", "1:25", "max_rounds (8) is below rounds (9)"),
    (f"repetition: {{budget: 5 parsecs}}{BASE}", "1:14", "'5 parsecs' has a unit"),
    (f"repetition: {{confidence: 100%}}{BASE}", "1:14", "this must be below 1"),
    (f"repetition: []{BASE}", "1:1", "repetition: this must be a mapping (`key: value` lines), not a list"),
    (f"seed: -1{BASE}", "1:1", "seed: this must be at least 0"),
    (f"name: a/b{BASE}", "1:1", "letters, digits, dots, dashes and underscores"),
    (f"cluster: labb{BASE}", "1:1", "unknown cluster 'labb'; did you mean lab?"),
    (f"cluster: {{}}{BASE}", "1:1", "no cluster is named"),
    (f"cluster: {{labb: }}{BASE}", "1:11", "cluster.labb: unknown cluster 'labb'; did you mean lab?"),
    (f"cluster: {{lab: , fake: }}{BASE}", "1:1", "cluster: a study runs on one cluster, but this names lab and fake"),
    (f"cluster: 3{BASE}", "1:1", "cluster: this must be a mapping"),
    (f"cluster: {{lab: 3}}{BASE}", "1:11", "cluster.lab: this must be a mapping"),
    (f"cluster: {{lab: {{nods: 2}}}}{BASE}", "1:17", "cluster.lab.nods: unknown key 'nods'; did you mean nodes?"),
    (f"cluster: {{lab: {{link_rate: fast}}}}{BASE}", "1:17", "'fast' is not a link rate"),
    (
        f"cluster: {{lab: {{nodes: 1, subnets: 2}}}}\nplacements: [1x2]{BASE}",
        "1:27",
        "2 subnets need at least 2 nodes; this cluster has 1",
    ),
    (f"placements: 2y{BASE}", "1:1", "'2y' is not a placement"),
    (f"placements: [2x1, 2x1]{BASE}", "1:19", "placements[1]: this is the same as placement 1"),
    (f"placements: [{{nodes: 0}}]{BASE}", "1:15", "placements[0].nodes: this must be at least 1"),
    (f"placements: [2x3 in 2c]{BASE}", "1:14", "cannot be divided equally among 2 containers"),
    (f"placements: [3x1]\ncluster: {{lab: {{nodes: 2}}}}{BASE}", "1:14", "needs 3 nodes, but the cluster has 2"),
    (f"placements: [2x3]\ncluster: {{lab: {{cores_per_node: 2}}}}{BASE}", "1:14", "3 ranks need 3 cores"),
    (f"placements: [{{memory_per_container: 64}}]{BASE}", "1:14", "memory_per_container of 64 B is too small"),
    (f"placements: [{{memory_per_container: 1XiB}}]{BASE}", "1:15", "is not valid for a size"),
    (f"placements: [{{map_by: sockets}}]{BASE}", "1:15", "did you mean socket"),
    (f"placements: [{{map_by: numa, binding: mpi-default}}]{BASE}", "1:14", "leaves that to the MPI"),
    (
        f"placements: [{{cpus_per_container: 3}}]\ncluster: {{lab: {{cores_per_node: 2}}}}{BASE}",
        "1:14",
        "1 container x 3 CPUs need 3 cores on node 0, which has 2",
    ),
    (f"placements: []{BASE}", "1:1", "placements: this is empty"),
    (f"{ENVIRONMENTS}workloads: {{w: {{kernels: []}}}}", "3:17", "workloads.w.kernels: this is empty"),
    (f"{ENVIRONMENTS}workloads: {{w: [latency]}}", "3:13", "workloads.w: this must be a mapping"),
    (f"{ENVIRONMENTS}workloads: {{w: {{command: ./app}}}}", "3:17", "workloads.w.command: this must be a list"),
    (f"{ENVIRONMENTS}workloads: {{w: {{}}}}", "3:13", "`command` or `startup`; this has none of them"),
    (f"{ENVIRONMENTS}workloads: {{w: {{kernels: [bw], command: [a]}}}}", "3:13", "this has kernels and command"),
    (f"{ENVIRONMENTS}workloads: {{w: {{startup: cool}}}}", "3:17", "'cool'; did you mean cold? (allowed: warm, cold)"),
    ("a_a: true\na_a: true" + BASE, "2:1", "a_a: this key is given twice; first in line 1"),
    ("a: 1\n\tb: 2", "2:1", "a tab is used here: indent with spaces"),
    ("environments: [bare", "1:20", "this is not valid YAML"),
    ("a: b: c", "1:5", "this is not valid YAML: mapping values are not allowed here"),
    ("environments: *all", "1:15", "undefined alias 'all'"),
    ("a: !!python/object:os.system {}", "1:1", "the tag tag:yaml.org,2002:python/object:os.system is not allowed"),
    (f"? [a, b]\n: 3{BASE}", "1:3", "a key must be one word"),
    ("a: 1\n---\nb: 1", "2:1", "expected a single document"),
    ("- bare", "1:1", "a study is a mapping of keys to values, not a list"),
]
WRONG_WORKLOADS = [
    ("{command: [a], mpi: mpich6}", "3:31", "workloads.w.mpi: unknown MPI 'mpich6'; did you mean mpich?"),
    ("{miniapp: npb-cg:klass=A}", "3:17", "has no parameter 'klass'; did you mean class? (allowed: class, pace)"),
    ("{miniapp: npb-cq}", "3:17", "'npb-cq'; did you mean npb-cg? (allowed: npb-ep"),
    ("{miniapp: npb-cg:class=Z}", "3:17", "npb-cg has no class 'Z' (allowed: S, W, A, B, C, D)"),
    ("{miniapp: npb-cg:class}", "3:17", "as npb-cg:key=value,... (keys: class, pace)"),
    ("{miniapp: {npb-cg: {class: E}}}", "3:36", "miniapp.npb-cg.class: npb-cg has no class 'E'"),
    ("{miniapp: {npb-cg: {clas: S}}}", "3:36", "'clas'; did you mean class?"),
    ("{miniapp: {npb-xx: }}", "3:27", "miniapp.npb-xx: unknown mini-application"),
    ("{miniapp: {npb-cg: A}}", "3:27", "are a mapping, such as {class: S}"),
    ("{miniapp: {npb-cg: , npb-is: }}", "3:17", "this names npb-cg and npb-is"),
    ("{miniapp: [npb-cg]}", "3:17", "is NAME, NAME:class=A,key=value or {NAME:"),
    ("{miniapp: npb-cg, kernels: [bw]}", "3:13", "this has kernels and miniapp"),
    ("{miniapp: npb-cg, arguments: [a]}", "3:34", "miniapp takes no arguments (it belongs to program)"),
    ("{command: [a], path: b}", "3:31", "command takes no path (it belongs to program)"),
    ("{program: osu_latncy}", "3:17", "unknown program 'osu_latncy'"),
    ("{program: }", "3:13", "has none of them"),
    ("{commands: []}", "3:17", "workloads.w.commands: this is empty"),
    ("{commands: docker}", "3:17", "workloads.w.commands: this must be a list"),
    ("{commands: [docker]}", "3:28", "workloads.w.commands[0]: this must be a mapping"),
    ("{commands: [[]]}", "3:28", "workloads.w.commands[0].run: this is empty"),
    ("{commands: [{expect: x}]}", "3:28", "workloads.w.commands[0].run: this key is required"),
    ("{commands: [{run: [a], expected: x}]}", "3:39", "unknown key 'expected'; did you mean expect?"),
    ("{commands: [{run: [a], expect: {status: 1}}]}", "3:48", "unknown key 'status'"),
    ("{commands: [{run: [a], expect: {exit: 256}}]}", "3:48", "this must be at most 255, not 256"),
    ("{commands: [{run: [a], expect: [x]}]}", "3:39", "this must be a mapping"),
    ("{commands: [{run: [a], expect: }]}", "3:39", "this key has no value"),
    ('{commands: [{run: [a], expect: "x\\ny"}]}', "3:39", "write it without a line end"),
    ("{commands: [{run: [a], expect: {line: ''}}]}", "3:48", "this is empty"),
    ("{commands: [{run: [a], within: soon}]}", "3:39", "within"),
    ("{commands: [{run: [a], within: 90s}]}", "3:39", "longer than the workload's time_limit of 60 s"),
    ('{commands: [[a, "{imag}"]]}', "3:28", "{imag} is not replaced by anything; did you mean {image}?"),
    ('{commands: [[a]], undo: [[b, "x-{nme}"]]}', "3:41", "{nme} is not replaced by anything; did you mean {name}"),
    ('{commands: [[a, "b\\0c"]]}', "3:32", "a word of a command cannot have a zero byte"),
    ("{kernels: [barrier], undo: [[a]]}", "3:37", "kernels takes no undo (it belongs to commands)"),
    ("{commands: [[a]], command: [b]}", "3:13", "this has commands and command"),
    ("{commands: [[a]], arguments: [b]}", "3:34", "commands takes no arguments (it belongs to program)"),
]
WRONG_KERNELS = [
    ("[sned]", "4:4", "kernels[0]: unknown kernel 'sned'"),
    ("[barrier: 8]", "4:4", "barrier takes no message_bytes"),
    ("[{latency: 8, window: 3}]", "4:17", "latency takes no window (it belongs to bw, bibw)"),
    ("[{latency: 8, foo: 3}]", "4:17", "unknown key 'foo'"),
    ("[{latency: 8, bw: 3}]", "4:4", "one entry is one kernel, but this names latency and bw"),
    ("[{iterations: 8}]", "4:4", "one entry is one kernel, but this names none"),
    ("[latency: 64K]", "4:4", "KiB"),
    ("[latency: 4GiB]", "4:4", "at most 2147483647"),
    ("[latency: []]", "4:4", "the list of sizes is empty"),
    ("[latency: [8, 8]]", "4:4", "latency:bytes=8 is measured twice"),
    ("[latency, latency: 8]", "4:13", "measured twice"),
    ("[[latency]]", "4:4", "a kernel is a name"),
    ("[allreduce: [8, 6]]", "4:19", "a multiple of 4, not 6"),
    ("[halo: [8, 12]]", "4:14", "a multiple of 8, not 12"),
    ("[allreduce: 0]", "4:4", "allreduce needs a message of at least one byte, not 0"),
    ("[bw: 0]", "4:4", "bw needs a message of at least one byte, not 0"),
    ("[spacing: {warmup: 0}]", "4:14", "spacing needs a warm-up of at least 1, not 0"),
    ("[spacing: {rate: 0}]", "4:14", "a rate must be above 0"),
    ("[latency: {iterations: 0}]", "4:14", "this must be at least 1"),
    ("[latency: {sync: maybe}]", "4:14", "unknown value 'maybe' (allowed: none, barrier, window)"),
]


@pytest.mark.parametrize(("text", "place", "part"), WRONG)
def test_what_is_wrong_is_told_with_its_place(text: str, place: str, part: str) -> None:
    message = message_of(text)
    lines = [line for line in message.splitlines() if part in line]
    assert lines, message
    assert lines[0].strip().startswith(f"s.yaml:{place}")


@pytest.mark.parametrize(
    ("workload", "key", "place", "part"),
    [
        *((workload, "", place, part) for workload, place, part in WRONG_WORKLOADS),
        *((f"{{kernels:\n  {kernels}}}", ".kernels", place, part) for kernels, place, part in WRONG_KERNELS),
    ],
)
def test_what_is_wrong_with_a_workload_or_kernels_is_told_with_its_place(
    workload: str, key: str, place: str, part: str
) -> None:
    message = message_of(f"{ENVIRONMENTS}workloads: {{w: {workload}}}")
    assert part in message
    assert message.startswith(f"s.yaml:{place}: workloads.w{key}")


def test_all_problems_are_told_at_once_in_the_order_of_the_file_and_draw_no_others() -> None:
    message = message_of(f"margin: 0%\nfoo: 1\nseed: x{ENVIRONMENTS}workloads: {{w: {{kernels: [sned]}}}}")
    assert message.startswith("s.yaml has 4 problems:\n")
    assert re.findall(r"s\.yaml:(\d+):", message) == ["1", "2", "3", "5"]
    assert len(message_of(f"environments: [bare, docker+foo]{WORK}").splitlines()) == 1
    assert len(message_of(f"{ENVIRONMENTS}workloads: {{w: {{kernels: [sned: 8]}}}}").splitlines()) == 1


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_told(text: str) -> None:
    assert re.search(r"is empty|a study is a mapping of keys to values, not nothing", message_of(text))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: &a [*a]", "contains itself"),
        ("a: " + "[" * 700, "nested too deeply"),
        ("a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcd", "bcde", strict=True)
        ), "more than 20000 values"),
        ("a: \x01", "is not allowed in YAML"),
    ],
)  # fmt: skip
def test_hostile_text_is_refused_in_a_sentence(text: str, part: str) -> None:
    assert part in message_of(text)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text("x")
    (tmp_path / "units.yaml").write_text("x")
    (tmp_path / "latin.yaml").write_bytes(b"name: a\nfoo: kaf\xe9\n")
    (tmp_path / "large.yaml").write_bytes(b" " * (2 << 20))
    for name, part in [
        ("quickstrat.yaml", "there is no such file\n  did you mean"),
        ("nofile.yaml", "there is no such file\n  check the path"),
        ("quickstart", "there is no such file\n  did you mean"),
        ("latinx.yml", "latin.yaml?"),
        ("", "is a folder"),
        ("latin.yaml", ":2:9: byte 0xe9 is not UTF-8"),
        ("large.yaml", "too large for a study"),
        ("none/none.yaml", "there is no such file"),
        ("quickstart.yaml/a", "cannot be read: Not a directory"),
    ]:
        with pytest.raises(StudyError) as caught:
            load(tmp_path / name)
        assert part in str(caught.value)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["bare", "docker+host", "lab", "2x1", "latency", "64KiB", "2%", "5min"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["bare", "docker", "lab", "kernels", "command", "latency", "nodes", "rounds", "image"]),
        inner,
        max_size=3,
    ),
    max_leaves=12,
)  # fmt: skip
KEYS = ["name", "cluster", "baseline", "environments", "placements", "workloads", "repetition", "margin", "a_a", "seed"]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=6))
def test_any_yaml_is_read_or_refused_with_a_place(data: dict[str, Any]) -> None:
    base = {"environments": ["bare", "docker+host"], "workloads": {"w": {"kernels": ["barrier"]}}}
    text = yaml.safe_dump(base | data)
    try:
        parse(text, file="s.yaml")
    except StudyError as error:
        assert re.search(r"s\.yaml(:\d+:\d+: .+| has \d+ problems:)", str(error))  # noqa: PT017


def many(key: str, number: int) -> str:
    return f"{key}:\n" + "".join(f"  n{i}: {{runtime: bare, env: {{A: b{i}}}}}\n" for i in range(number))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("environments: [bare, docker]\nplacements: [4000x4000]" + WORK,
         "4000n x 4000r has 16000000 ranks; the maximum is 16384"),
        ("environments: [bare, docker]\nplacements: [{nodes: 2, ranks_per_node: 100, threads_per_rank: 1000000,"
         " oversubscribe: true}]" + WORK, "needs 200000000 cores; the maximum is 262144"),
        ("environments: [bare, docker]\nplacements: [" + ", ".join(f"{n}x16" for n in range(100, 300)) + "]" + WORK,
         "ranks: use at most 65536"),
        ("environments: [bare, docker]\ncluster: {lab: {nodes: 1000000}}" + WORK,
         "1000000 nodes are too many: use at most 4096"),
        ("environments: [bare, docker]\nrepetition: {rounds: 1000000, blocks_per_round: 1000000}" + WORK,
         "are 3000000000000 launches, but at most 1000000 can run"),
        (many("environments", 200) + "placements: [" + ", ".join(f"1x{n}" for n in range(1, 201)) + "]\nworkloads:\n"
         + "".join(f"  w{n}: {{kernels: [barrier]}}\n" for n in range(200)),
         "201 environments x 200 placements x 200 workloads are 8040000 cells, but at most 10000 can run"),
        ("environments: [bare, docker]\nworkloads: {w: {kernels: [{latency: ["
         + ", ".join(str(n) for n in range(1, 1200)) + "]}]}}\n",
         "1199 kernels in one launch are too many: use at most 1000"),
    ],
)  # fmt: skip
def test_a_study_beyond_all_bounds_is_refused_with_the_bound(text: str, told: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse(text)
    assert told in caught.value.message


def test_a_study_at_the_bounds_is_taken_and_commands_placements_or_files_beyond_are_refused() -> None:
    stated = parse("environments: [bare, docker]\nplacements: [{nodes: 128, ranks_per_node: 128}]" + WORK)
    assert stated.placements[0].ranks == 16_384
    with pytest.raises(RefusedError, match="the maximum is 16384"):
        place(Placement(nodes=4000, ranks_per_node=4000), Topology(nodes=(NodeCores(cores=(0,)),) * 4000))
    with pytest.raises(StudyError, match="more than 1 MiB, which is too large"):
        load(Path("/dev/zero"))
    message = message_of(f"{ENVIRONMENTS}workloads: {{w: {{commands: [{', '.join(['[a]'] * 101)}]}}}}")
    assert "3:17: workloads.w.commands: 101 commands in one launch are too many: use at most 100" in message


WHOLE = """
workloads:
  scaled:
    time_limit: 90s
    commands:
      - [docker, service, scale, "{name}=3"]
      - {run: [docker, service, ls, --format, "{{.Replicas}}"], expect: 3/3, within: 30s}
      - run: [docker, logs, web]
        expect: {line: 2, no_line: not answered, exit: 1}
      - {run: [sleep, 600], expect: {exit: 143}}
    undo:
      - [docker, rm, --force, 7]
"""


def test_commands_are_read_with_their_shorthands() -> None:
    assert parse(ENVIRONMENTS + WHOLE).workloads == (
        Workload(
            name="scaled",
            time_limit_s=90.0,
            commands=(
                NodeCommand(run=("docker", "service", "scale", "{name}=3")),
                NodeCommand(run=("docker", "service", "ls", "--format", "{{.Replicas}}"), line="3/3", within_s=30.0),
                NodeCommand(run=("docker", "logs", "web"), line="2", no_line="not answered", exit=1),
                NodeCommand(run=("sleep", "600"), exit=143),
            ),
            undo=(("docker", "rm", "--force", "7"),),
        ),
    )


@pytest.mark.parametrize("word", ["{{.Names}}", "${image1}", "$imag", "{print}", "{ image }", "{x"])
def test_braces_that_mean_something_else_are_let_through(word: str) -> None:
    text = f"{ENVIRONMENTS}workloads: {{w: {{commands: [[a, '{word}']]}}}}"
    assert parse(text).workloads[0].commands[0].run == ("a", word)
