"""A study file is read with its shorthands; what it can name is what is registered."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from source_tree import ROOT, program
from tare.clusters import CLUSTERS
from tare.errors import StudyError
from tare.images import DEFAULT
from tare.model import (
    Binding,
    Environment,
    KernelSpec,
    LabSpec,
    MapBy,
    Placement,
    Repetition,
    Share,
    Sides,
    Study,
    Workload,
)
from tare.mpi import MPIS
from tare.networks.wiring.transports import NAMES
from tare.study import KNOWN, Known, environment, load, parse
from tare.study.plan.cells import expand
from tare.workloads.kernels import RATES, SIZELESS
from tare.workloads.kernels_time import kernel_s
from unit.study_texts import ENVIRONMENTS, WORK

SCHEMA = program("study_schema").json_schema()


def environments_of(text: str) -> tuple[Environment, ...]:
    return parse(f"environments: {text}{WORK}").environments


def kernels_of(text: str) -> tuple[KernelSpec, ...]:
    return parse(f"{ENVIRONMENTS}workloads: {{w: {{kernels: {text}}}}}").workloads[0].kernels


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
            Environment(name="docker+overlay", runtime="docker", network="overlay", image=DEFAULT),
        ),
        placements=(Placement(),),
        workloads=study.workloads,
        repetition=Repetition(rounds=10, max_rounds=10, turns=20),
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
repetition:
  {rounds: 6, blocks_per_round: 2, max_rounds: 20, budget: 3600, confidence: 99%, target_half_width: 0.5%, turns: 5}
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
        name="d", runtime="docker", network="bridge", image="debian-openmpi", transport="shm", sides=Sides.RECEIVER
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
    assert study.workloads[1].command == (f"{Path.cwd()}/app", "5", "no", "010", "x y")
    assert study.repetition == Repetition(
        rounds=6, blocks_per_round=2, max_rounds=20, budget_s=3600, confidence=0.99, target_half_width=0.005, turns=5
    )
    assert (study.margin, study.limit, study.self_comparison, study.seed) == (0.03, 0.1, False, 7)


@pytest.mark.parametrize(
    ("stated", "spec"),
    [
        ("npb-cg", "npb-cg:class=S"),
        ("npb-cg:class=A", "npb-cg:class=A"),
        ("{npb-cg: }", "npb-cg:class=S"),
        ("{npb-cg: {}}", "npb-cg:class=S"),
        ("{npb-cg: {class: A}}", "npb-cg:class=A"),
    ],
)
def test_a_mini_application_is_one_text_or_a_mapping_and_means_the_same(stated: str, spec: str) -> None:
    study = parse(f"{ENVIRONMENTS}workloads: {{w: {{miniapp: {stated}}}}}")
    assert study.workloads[0] == Workload(name="w", miniapp=spec)


def test_the_file_gives_the_name_and_paths_begin_there(tmp_path: Path) -> None:
    known = replace(KNOWN, programs=("osu_latency",))
    text = f"{ENVIRONMENTS}workloads: {{w: {{program: osu_latency, arguments: [-m, 8:010, no], path: ./osu}}}}"
    study = parse(text, known=known, base=tmp_path)
    assert study.workloads[0] == Workload(
        name="w", program="osu_latency", arguments=("-m", "8:010", "no"), path=str(tmp_path / "osu")
    )
    path = tmp_path / "my study!.yaml"
    path.write_text("\ufeff" + ENVIRONMENTS + WORK, encoding="utf-8")
    assert load(path).name == "my-study"


@pytest.mark.parametrize(
    ("name", "runtime", "network", "image"),
    [
        ("bare", "bare", "host", ""),
        ("bare+image", "bare", "host", DEFAULT),
        ("bare+bridge", "bare", "bridge", ""),
        ("bare+image+bridge", "bare", "bridge", DEFAULT),
        ("docker", "docker", "host", DEFAULT),
        ("docker+docker-default", "docker", "docker-default", DEFAULT),
        ("fake", "fake", "host", ""),
    ],
)
def test_a_name_says_runtime_image_and_network(name: str, runtime: str, network: str, image: str) -> None:
    assert environment(name) == Environment(name=name, runtime=runtime, network=network, image=image)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("dockr", "unknown runtime 'dockr'; did you mean docker?"),
        ("singularity", "unknown runtime 'singularity': use apptainer (allowed: "),
        ("Docker", "unknown runtime 'Docker'; did you mean docker?"),
        ("docker+brideg", "unknown network 'brideg'; did you mean bridge?"),
        ("bare+bridge+host", "write it as runtime[+dockerd][+image][+network]"),
        ("", "unknown runtime ''"),
    ],
)
def test_a_name_that_says_nothing_known_is_refused(name: str, part: str) -> None:
    with pytest.raises(StudyError) as caught:
        environment(name)
    assert part in str(caught.value)


def test_environments_have_a_list_a_mapping_and_names_of_their_own() -> None:
    listed = environments_of("[bare, docker+bridge, {docker+direct: {sides: sender}}]")
    mapped = environments_of("{bare: , docker+bridge: {}, docker+direct: {sides: sender}}")
    assert listed == mapped
    assert listed[2].sides is Sides.SENDER
    short, full = environments_of("{a: docker+overlay, b: {runtime: bare, image: true}}")
    assert (short.name, short.runtime, short.network) == ("a", "docker", "overlay")
    assert (full.runtime, full.image) == ("bare", DEFAULT)
    known = Known(runtimes=("bare", "podman"), networks=("host", "routed"))
    study = parse("environments: [bare, podman+routed]" + WORK, known=known)
    assert study.environments[1].network == "routed"
    assert study.environments[1].image == DEFAULT


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
        ("{map_by: numa, cpus_per_container: 2}", Placement(map_by=MapBy.NUMA, cpus_per_container=2.0)),
        (
            "{memory_per_container: 4GiB, cpus_per_container: 0.5}",
            Placement(memory_per_container=4 * 2**30, cpus_per_container=0.5),
        ),
    ],
)
def test_placements_have_a_short_form(text: str, placement: Placement) -> None:
    assert parse(f"placements: {text}{ENVIRONMENTS}{WORK}").placements == (placement,)


def test_the_lab_has_the_nodes_of_the_largest_placement_a_launch_a_minute_and_yaml_its_anchors() -> None:
    assert parse(f"placements: [2x1, 5x1]{ENVIRONMENTS}{WORK}").lab.nodes == 5
    text = "environments:\n  bare: &b {transport: shm}\n  docker+host: {<<: *b, mpi: openmpi}" + WORK
    assert [e.transport for e in parse(text).environments] == ["shm", "shm"]
    study = parse(f"{ENVIRONMENTS}workloads: {{k: {{kernels: [barrier]}}, c: {{command: [./app]}}}}")
    assert [workload.time_limit_s for workload in study.workloads] == [60, 60]
    assert [k.message_bytes for k in kernels_of("[allreduce: [4, 1MiB], latency: 0, halo: 24]")] == [4, 1 << 20, 0, 24]
    assert kernels_of("[spacing: {warmup: 1}, {latency: 8, warmup: 0}]")[0].warmup == 1


# --- what is published ------------------------------------------------------------------------------------------


def test_the_schema_is_current() -> None:
    path = ROOT / "docs" / "study.schema.json"
    assert path.read_text() == json.dumps(SCHEMA, indent=2, sort_keys=True) + "\n", "run tools/frames_page.py --write"


def yaml_blocks(path: Path) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)


def test_the_examples_in_the_documentation_are_right() -> None:
    shortest, _all, environments, placements, workloads, published = yaml_blocks(ROOT / "docs" / "study.md")
    assert len(parse(shortest).environments) == 2
    study = parse(environments + placements + workloads)
    assert len(study.environments) == 5
    assert len(study.placements) == 3
    assert study.workloads[0].kernels[-1] == KernelSpec(kernel="latency", message_bytes=1024, warmup=50)
    (beside,) = parse(f"environments: [bare, docker+macvlan]{WORK}{published}").published
    assert beside.of_baseline == 0.91


def test_the_overview_in_the_documentation_names_every_key() -> None:
    overview = yaml_blocks(ROOT / "docs" / "study.md")[1].replace("cluster: lab  ", "# ", 1)
    overview = overview.replace("[...]", "[bare, docker]", 1).replace("[...]", "[2x1]", 1)
    overview = overview.replace("[...]", "[]", 1).replace("{...}", "{w: {kernels: [barrier]}}")
    study = parse(overview)
    assert study.repetition == Repetition(rounds=10, max_rounds=40, budget_s=1800, turns=20)
    named = set(re.findall(r"^ *(\w+):", overview, re.MULTILINE))
    keys = set(SCHEMA["properties"])
    for part in ("ClusterIn", "RepetitionIn"):
        keys |= set(SCHEMA["$defs"][part]["properties"])
    assert keys <= named


@pytest.mark.parametrize("path", sorted((ROOT / "studies").rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_study_of_ours_is_right_and_named_in_the_documentation_or_readme(path: Path) -> None:
    stated = load(path)
    assert stated.name == path.stem
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    assert any(str(path.relative_to(ROOT)) in page.read_text() for page in pages)


def test_the_quick_start_is_what_the_readme_promises() -> None:
    study = load(ROOT / "studies" / "quickstart.yaml")
    assert study.name == "quickstart"
    assert study.baseline == "bare"
    assert study.self_comparison
    names = (
        "bare bare+image bare+bridge bare+dockerd docker+host docker+bridge docker+direct docker+macvlan docker+overlay"
    )
    assert [e.name for e in study.environments] == names.split()
    assert (study.repetition.rounds, study.repetition.blocks_per_round) == (12, 1)
    kernels = " ".join(f"{k.kernel}:{k.message_bytes}" for k in study.workloads[0].kernels)
    assert kernels == "latency:8 latency:65536 bw:1048576 barrier:None alltoallv:65536 spacing:8"
    plan = expand(study, lambda _e, _p: None)
    assert len(plan.cells) == 10
    measured = sum(kernel_s(k, 2) for k in study.workloads[0].kernels)
    assert 0.1 < measured < 0.3
    assert all((k.iterations or 0) >= 20 for k in study.workloads[0].kernels)
    assert plan.estimated_s < 300


def test_a_study_that_only_counts_may_have_one_environment() -> None:
    counts = "a_a: false\nenvironments: [bare]\nplacements: [{nodes: 2, ranks_per_node: 4, oversubscribe: true}]\n"
    study = parse(f"{counts}{WORK}", file="s.yaml")
    assert [cell.environment.name for cell in expand(study, lambda *_: None).cells] == ["bare"]


def test_what_can_be_named_is_what_is_registered() -> None:
    assert {key.partition(":")[0] for mpi in MPIS.values() for key in mpi.ways} == set(NAMES)
    assert set(KNOWN.unsized) == SIZELESS
    assert set(KNOWN.windowed) == RATES


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_registered_cluster_is_named_by_its_name_alone_or_with_settings(name: str) -> None:
    plain = parse(f"cluster: {name}{ENVIRONMENTS}{WORK}")
    assert (plain.cluster, plain.lab.nodes) == (name, 2)
    full = parse(f"cluster: {{{name}: {{nodes: 3, cores_per_node: 4}}}}{ENVIRONMENTS}{WORK}")
    assert (full.cluster, full.lab.nodes, full.lab.cores_per_node) == (name, 3, 4)
