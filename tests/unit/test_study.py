"""A study file is read with its shorthands, and whatever is wrong in it is told with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import StudyError
from tare.model import Binding, Environment, KernelSpec, LabSpec, Placement, Repetition, Share, Sides, Study
from tare.plan import estimate_kernel_s, expand
from tare.study import DEFAULT_IMAGE, Known, environment, json_schema, json_schema_text, load, parse

ROOT = Path(__file__).parents[2]
WORK = "\nworkloads: {w: {kernels: [barrier]}}\n"
ENVIRONMENTS = "\nenvironments: [bare, docker+host]\n"


def environments_of(text: str) -> tuple[Environment, ...]:
    return parse(f"environments: {text}{WORK}").environments


def kernels_of(text: str) -> tuple[KernelSpec, ...]:
    return parse(f"{ENVIRONMENTS}workloads: {{w: {{kernels: {text}}}}}").workloads[0].kernels


def message_of(text: str, file: str = "s.yaml") -> str:
    with pytest.raises(StudyError) as caught:
        parse(text, file=file)
    return str(caught.value)


# --- what is read -----------------------------------------------------------------------------------------------


def test_the_shortest_study_has_the_usual_values() -> None:
    study = parse("environments: [bare, docker+overlay]" + WORK, name="short")
    assert study == Study(
        name="short",
        cluster="lab",
        lab=LabSpec(nodes=2),
        baseline="bare",
        environments=(
            Environment(name="bare", runtime="bare", network="host"),
            Environment(name="docker+overlay", runtime="docker", network="overlay", image=DEFAULT_IMAGE),
        ),
        placements=(Placement(),),
        workloads=study.workloads,
        repetition=Repetition(rounds=10, max_rounds=10),
    )


def test_every_key_is_read() -> None:
    study = parse(
        """
name: all
cluster: {lab: {nodes: 4, cores_per_node: 8, link_rate: 10Gbit, wire: segmented, oversubscribe: true}}
baseline: b
environments:
  b: {runtime: bare}
  d: {runtime: docker, network: bridge, image: debian-openmpi, transport: shm, mpi: openmpi, sides: receiver}
placements:
  - nodes: 4
    ranks_per_node: 4
    containers_per_node: 2
    share: none
    binding: mpi-default
    threads_per_rank: 2
    oversubscribe: true
workloads:
  k:
    kernels: [{kernel: bw, message_bytes: 1MiB, iterations: 5, warmup: 0, window: 16, sync: window}]
    time_limit: 2min
  c: {command: [./app, 5, no, 010, "x y"]}
repetition: {rounds: 6, blocks_per_round: 2, max_rounds: 20, budget: 1h, confidence: 99%, target_half_width: 0.5%}
margin: 3%
limit: 0.1
a_a: false
seed: 7
"""
    )
    assert study.name == "all"
    assert study.lab == LabSpec(nodes=4, cores_per_node=8, link_rate_bps=10**10, segmented=True, oversubscribe=True)
    assert study.baseline == "b"
    assert study.environments[1] == Environment(
        name="d",
        runtime="docker",
        network="bridge",
        image="debian-openmpi",
        transport="shm",
        sides=Sides.RECEIVER,
    )
    assert study.placements == (
        Placement(
            nodes=4,
            ranks_per_node=4,
            containers_per_node=2,
            share=Share.NONE,
            binding=Binding.MPI_DEFAULT,
            threads_per_rank=2,
            oversubscribe=True,
        ),
    )
    assert study.workloads[0].kernels == (
        KernelSpec(kernel="bw", message_bytes=1 << 20, iterations=5, warmup=0, window=16, sync="window"),
    )
    assert study.workloads[0].time_limit_s == 120
    assert study.workloads[1].command == ("./app", "5", "no", "010", "x y")
    assert study.repetition == Repetition(
        rounds=6, blocks_per_round=2, max_rounds=20, budget_s=3600, confidence=0.99, target_half_width=0.005
    )
    assert (study.margin, study.limit, study.self_comparison, study.seed) == (0.03, 0.1, False, 7)


@pytest.mark.parametrize(
    ("name", "runtime", "network", "image"),
    [
        ("bare", "bare", "host", ""),
        ("bare+image", "bare", "host", DEFAULT_IMAGE),
        ("bare+bridge", "bare", "bridge", ""),
        ("bare+image+bridge", "bare", "bridge", DEFAULT_IMAGE),
        ("docker", "docker", "host", DEFAULT_IMAGE),
        ("docker+docker-default", "docker", "docker-default", DEFAULT_IMAGE),
        ("fake", "fake", "host", ""),
    ],
)
def test_a_name_says_runtime_image_and_network(name: str, runtime: str, network: str, image: str) -> None:
    assert environment(name) == Environment(name=name, runtime=runtime, network=network, image=image)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("dockr", "unknown runtime 'dockr'; did you mean docker?"),
        ("docker+brideg", "unknown network 'brideg'; did you mean bridge?"),
        ("bare+bridge+host", "not a name of the form runtime[+image][+network]"),
        ("", "unknown runtime ''"),
    ],
)
def test_a_name_that_says_nothing_known_is_refused(name: str, part: str) -> None:
    with pytest.raises(StudyError) as caught:
        environment(name)
    assert part in str(caught.value)


def test_environments_as_list_as_mapping_and_mixed_are_the_same() -> None:
    listed = environments_of("[bare, docker+bridge, {docker+direct: {sides: sender}}]")
    mapped = environments_of("{bare: , docker+bridge: {}, docker+direct: {sides: sender}}")
    assert listed == mapped
    assert listed[2].sides is Sides.SENDER


def test_a_name_of_ones_own_can_stand_for_a_shorthand_or_a_mapping() -> None:
    short, full = environments_of("{a: docker+overlay, b: {runtime: bare, image: true}}")
    assert (short.name, short.runtime, short.network) == ("a", "docker", "overlay")
    assert (full.runtime, full.image) == ("bare", DEFAULT_IMAGE)


def test_kernels_are_read_in_every_form_and_lists_of_sizes_are_spread() -> None:
    assert kernels_of("[barrier, latency: [8, 64KiB], bw: 1MiB]") == (
        KernelSpec(kernel="barrier"),
        KernelSpec(kernel="latency", message_bytes=8),
        KernelSpec(kernel="latency", message_bytes=65536),
        KernelSpec(kernel="bw", message_bytes=1 << 20),
    )
    assert kernels_of("[spacing: {message_bytes: 8, rate: 10kHz}, {latency: [8, 9], iterations: 5}]") == (
        KernelSpec(kernel="spacing", message_bytes=8, rate_hz=10000.0),
        KernelSpec(kernel="latency", message_bytes=8, iterations=5),
        KernelSpec(kernel="latency", message_bytes=9, iterations=5),
    )
    assert kernels_of(
        "[{kernel: latency, message_bytes: [1, 2], warmup: 3}, {barrier: }, {alltoall: {iterations: 4}}]"
    ) == (
        KernelSpec(kernel="latency", message_bytes=1, warmup=3),
        KernelSpec(kernel="latency", message_bytes=2, warmup=3),
        KernelSpec(kernel="barrier"),
        KernelSpec(kernel="alltoall", iterations=4),
    )


@pytest.mark.parametrize(
    ("text", "placement"),
    [
        ("2x4", Placement(nodes=2, ranks_per_node=4)),
        ("[1n x 2r]", Placement(nodes=1, ranks_per_node=2)),
        ("[2x4 in 2c]", Placement(nodes=2, ranks_per_node=4, containers_per_node=2)),
        ("{ranks_per_node: 3}", Placement(nodes=2, ranks_per_node=3)),
    ],
)
def test_placements_have_a_short_form(text: str, placement: Placement) -> None:
    assert parse(f"placements: {text}{ENVIRONMENTS}{WORK}").placements == (placement,)


def test_the_lab_has_as_many_nodes_as_the_largest_placement_needs() -> None:
    assert parse(f"placements: [2x1, 5x1]{ENVIRONMENTS}{WORK}").lab.nodes == 5


def test_yaml_anchors_and_merges_work() -> None:
    text = "environments:\n  bare: &b {transport: shm}\n  docker+host: {<<: *b, mpi: openmpi}" + WORK
    assert [e.transport for e in parse(text).environments] == ["shm", "shm"]


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5min", 300), ("0.5h", 1800), ("45", 45), ("250ms", 0.25)])
def test_the_time_limit_and_the_budget_are_durations(text: str, seconds: float) -> None:
    work = f"workloads: {{w: {{kernels: [barrier], time_limit: {text}}}}}"
    study = parse(f"{ENVIRONMENTS}{work}\nrepetition: {{budget: {text}}}")
    assert study.workloads[0].time_limit_s == seconds
    assert study.repetition.budget_s == seconds


def test_a_launch_is_given_a_minute_if_nothing_is_said() -> None:
    study = parse(f"{ENVIRONMENTS}workloads: {{k: {{kernels: [barrier]}}, c: {{command: [./app]}}}}")
    assert [workload.time_limit_s for workload in study.workloads] == [60, 60]


def test_messages_of_whole_floats_empty_ones_and_a_warm_up_of_one_are_let_through() -> None:
    assert [k.message_bytes for k in kernels_of("[allreduce: [4, 1MiB], latency: 0]")] == [4, 1 << 20, 0]
    assert kernels_of("[spacing: {warmup: 1}, {latency: 8, warmup: 0}]")[0].warmup == 1


def test_other_plug_ins_are_known_when_they_are_given() -> None:
    known = Known(runtimes=("bare", "podman"), networks=("host", "routed"))
    study = parse("environments: [bare, podman+routed]" + WORK, known=known)
    assert study.environments[1].network == "routed"
    assert study.environments[1].image == DEFAULT_IMAGE


def test_the_file_gives_the_name(tmp_path: Path) -> None:
    path = tmp_path / "my study!.yaml"
    path.write_text("\ufeff" + ENVIRONMENTS + WORK, encoding="utf-8")
    assert load(path).name == "my-study"


# --- what is refused --------------------------------------------------------------------------------------------


BASE = ENVIRONMENTS + WORK
WRONG: list[tuple[str, str, str]] = [
    (f"foo: 1{BASE}", "1:1", "foo: unknown key 'foo' (allowed: name, cluster"),
    (f"baselne: bare{BASE}", "1:1", "did you mean baseline?"),
    (f"environments: [bare, docker+foo]{WORK}", "1:22", "environments.docker+foo.network: unknown network 'foo'"),
    (f"environments: [bare, dockr]{WORK}", "1:22", "environments.dockr.runtime: unknown runtime 'dockr'"),
    (f"environments: [bare, bare]{WORK}", "1:22", "given twice; first in line 1"),
    (f"environments: [bare, bare+host]{WORK}", "1:22", "environments.bare+host: this is the same as bare"),
    (f"environments: {{a: {{network: host}}}}{WORK}", "1:16", "environments.a.runtime: unknown runtime 'a'"),
    (f"environments: {{bare: , a: {{runtime: dock}}}}{WORK}", "1:28", "a.runtime: unknown runtime 'dock'; did you"),
    (
        f"environments: {{bare: , docker+host: {{network: bridge}}}}{WORK}",
        "1:38",
        "the name says host and this says",
    ),
    (f"environments: {{bare: , docker: {{image: false}}}}{WORK}", "1:33", "docker always runs from an image"),
    (f"environments: {{bare: , bare+image: {{image: false}}}}{WORK}", "1:37", "the name says +image"),
    (f"environments: {{bare: {{image: no}}}}{WORK}", "1:23", "write true for the default image"),
    (
        f"environments: {{bare: {{image: debian}}}}{WORK}",
        "1:23",
        "unknown image 'debian'; did you mean debian-openmpi",
    ),
    (
        f"environments: {{bare: {{sides: left}}}}{WORK}",
        "1:23",
        "unknown value 'left' (allowed: both, sender, receiver)",
    ),
    (f"environments: {{bare: , a/b: docker}}{WORK}", "1:24", "'a/b' cannot be a name"),
    (f"environments: [bare, [docker]]{WORK}", "1:22", "an environment is a name or"),
    (f"environments: 3{WORK}", "1:1", "environments: this must be a mapping (`name: ...` lines), not 3"),
    (f"environments: {WORK}", "1:1", "environments: this key has no value"),
    (f"environments: []{WORK}", "1:1", "environments: this is empty"),
    (ENVIRONMENTS, "2:1", "workloads: this key is needed"),
    (f"baseline: bear{BASE}", "1:1", "'bear' is not one of the environments; did you mean bare?"),
    (f"a_a: no{BASE}", "1:1", "a_a: this must be true or false, not 'no'"),
    (f"a_a: false\nenvironments: [bare]{WORK}", "2:1", "leave nothing to compare"),
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
    (f"cluster: {{lab: , fake: }}{BASE}", "1:1", "cluster: a study runs on one cluster, and this names lab and fake"),
    (f"cluster: 3{BASE}", "1:1", "cluster: this must be a mapping"),
    (f"cluster: {{lab: 3}}{BASE}", "1:11", "cluster.lab: this must be a mapping"),
    (f"cluster: {{lab: {{nods: 2}}}}{BASE}", "1:17", "cluster.lab.nods: unknown key 'nods'; did you mean nodes?"),
    (f"cluster: {{lab: {{link_rate: fast}}}}{BASE}", "1:17", "'fast' is not a link rate"),
    (f"placements: 2y{BASE}", "1:1", "'2y' is not a placement"),
    (f"placements: [2x1, 2x1]{BASE}", "1:19", "placements[1]: this is the same as placement 1"),
    (f"placements: [{{nodes: 0}}]{BASE}", "1:15", "placements[0].nodes: this must be at least 1"),
    (f"placements: [2x3 in 2c]{BASE}", "1:14", "cannot be shared out equally over 2 containers"),
    (f"placements: [3x1]\ncluster: {{lab: {{nodes: 2}}}}{BASE}", "1:14", "needs 3 nodes, and there are 2"),
    (f"placements: [2x3]\ncluster: {{lab: {{cores_per_node: 2}}}}{BASE}", "1:14", "3 ranks need 3 cores"),
    (f"placements: []{BASE}", "1:1", "placements: this is empty"),
    (f"{ENVIRONMENTS}workloads: {{w: {{kernels: []}}}}", "3:17", "workloads.w.kernels: this is empty"),
    (f"{ENVIRONMENTS}workloads: {{w: [latency]}}", "3:13", "workloads.w: this must be a mapping"),
    (f"{ENVIRONMENTS}workloads: {{w: {{command: ./app}}}}", "3:17", "workloads.w.command: this must be a list"),
    (f"{ENVIRONMENTS}workloads: {{w: {{}}}}", "3:13", "`kernels` or `command`, and has neither"),
    (f"{ENVIRONMENTS}workloads: {{w: {{kernels: [bw], command: [a]}}}}", "3:13", "not both"),
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
WRONG_KERNELS = [
    ("[sned]", "4:4", "kernels[0]: unknown kernel 'sned'"),
    ("[barrier: 8]", "4:4", "barrier takes no message_bytes"),
    ("[{latency: 8, window: 3}]", "4:17", "latency takes no window (it belongs to bw, bibw)"),
    ("[{latency: 8, foo: 3}]", "4:17", "unknown key 'foo'"),
    ("[{latency: 8, bw: 3}]", "4:4", "one entry is one kernel, and this names latency and bw"),
    ("[{iterations: 8}]", "4:4", "one entry is one kernel, and this names none"),
    ("[latency: 64K]", "4:4", "KiB"),
    ("[latency: 4GiB]", "4:4", "at most 2147483647"),
    ("[latency: []]", "4:4", "the list of sizes is empty"),
    ("[latency: [8, 8]]", "4:4", "latency:bytes=8 is measured twice"),
    ("[latency, latency: 8]", "4:13", "measured twice"),
    ("[[latency]]", "4:4", "a kernel is a name"),
    ("[allreduce: [8, 6]]", "4:19", "a multiple of 4, not 6"),
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


@pytest.mark.parametrize(("kernels", "place", "part"), WRONG_KERNELS)
def test_what_is_wrong_with_kernels_is_told_with_its_place(kernels: str, place: str, part: str) -> None:
    message = message_of(f"{ENVIRONMENTS}workloads: {{w: {{kernels:\n  {kernels}}}}}")
    assert part in message
    assert message.startswith(f"s.yaml:{place}: workloads.w.kernels")


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    message = message_of(f"margin: 0%\nfoo: 1\nseed: x{ENVIRONMENTS}workloads: {{w: {{kernels: [sned]}}}}")
    assert message.startswith("s.yaml has 4 problems:\n")
    assert re.findall(r"s\.yaml:(\d+):", message) == ["1", "2", "3", "5"]


def test_a_problem_does_not_draw_others_after_it() -> None:
    assert len(message_of(f"environments: [bare, docker+foo]{WORK}").splitlines()) == 1
    assert len(message_of(f"{ENVIRONMENTS}workloads: {{w: {{kernels: [sned: 8]}}}}").splitlines()) == 1


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_told(text: str) -> None:
    assert re.search(r"is empty|a study is a mapping of keys to values, not nothing", message_of(text))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: &a [*a]", "contains itself"),
        ("a: " + "[" * 3000, "nested too deeply"),
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
    (tmp_path / "latin.yaml").write_bytes(b"name: a\nfoo: kaf\xe9\n")
    (tmp_path / "large.yaml").write_bytes(b" " * (2 << 20))
    for name, part in [
        ("quickstrat.yaml", "there is no such file\n  did you mean"),
        ("", "is a folder"),
        ("latin.yaml", ":2:9: byte 0xe9 is not UTF-8"),
        ("large.yaml", "that is no study file"),
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


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=6))
def test_any_yaml_is_read_or_refused_with_a_place(data: dict[str, Any]) -> None:
    base = {"environments": ["bare", "docker+host"], "workloads": {"w": {"kernels": ["barrier"]}}}
    text = yaml.safe_dump(base | data)
    try:
        parse(text, file="s.yaml")
    except StudyError as error:
        assert re.search(r"s\.yaml(:\d+:\d+: .+| has \d+ problems:)", str(error))  # noqa: PT017


# --- what is published ------------------------------------------------------------------------------------------


def test_the_schema_in_docs_is_current() -> None:
    path = ROOT / "docs" / "study.schema.json"
    assert path.read_text() == json_schema_text(), "write it anew with json_schema_text()"


def test_the_schema_knows_the_shorthands_and_the_names() -> None:
    schema = json_schema()
    assert schema["$defs"]["EnvironmentIn"]["properties"]["runtime"]["enum"] == ["bare", "docker", "fake"]
    assert schema["additionalProperties"] is False
    forms = [form.get("type") for form in schema["properties"]["environments"]["anyOf"]]
    assert forms == ["object", "array"]


def yaml_blocks(path: Path) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)


def test_the_examples_in_the_documentation_are_right() -> None:
    shortest, _all, environments, placements, workloads = yaml_blocks(ROOT / "docs" / "study.md")
    assert len(parse(shortest).environments) == 2
    study = parse(environments + placements + workloads)
    assert len(study.environments) == 4
    assert len(study.placements) == 3
    assert study.workloads[0].kernels[-1] == KernelSpec(kernel="latency", message_bytes=1024, warmup=50)


def test_the_overview_in_the_documentation_names_every_key() -> None:
    overview = yaml_blocks(ROOT / "docs" / "study.md")[1].replace("cluster: lab  ", "# ", 1)
    overview = overview.replace("[...]", "[bare, docker]", 1).replace("[...]", "[2x1]", 1)
    overview = overview.replace("{...}", "{w: {kernels: [barrier]}}")
    study = parse(overview)
    assert study.repetition == Repetition(rounds=10, max_rounds=40, budget_s=1800)
    named = set(re.findall(r"^ *(\w+):", overview, re.MULTILINE))
    schema = json_schema()
    keys = set(schema["properties"])
    for part in ("ClusterIn", "RepetitionIn"):
        keys |= set(schema["$defs"][part]["properties"])
    assert keys <= named


def test_the_quick_start_is_what_the_readme_promises() -> None:
    study = load(ROOT / "studies" / "quickstart.yaml")
    assert study.name == "quickstart"
    assert study.baseline == "bare"
    assert study.self_comparison
    assert [e.name for e in study.environments] == [
        "bare",
        "bare+image",
        "bare+bridge",
        "docker+host",
        "docker+bridge",
        "docker+direct",
        "docker+macvlan",
        "docker+overlay",
    ]
    assert study.repetition.rounds == 10
    assert [(k.kernel, k.message_bytes) for k in study.workloads[0].kernels] == [
        ("latency", 8),
        ("latency", 65536),
        ("bw", 1 << 20),
        ("barrier", None),
        ("alltoallv", 65536),
        ("spacing", 8),
    ]
    plan = expand(study, lambda _e, _p: None)
    assert len(plan.cells) == 9
    measured = sum(estimate_kernel_s(k, 2) for k in study.workloads[0].kernels)
    assert 0.4 < measured < 1.0
    assert plan.estimated_s < 300
