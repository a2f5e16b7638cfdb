"""Parts of a study: CNI configurations, changed placements, other clusters and launchers, environments as YAML."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare import study
from tare.analysis.explain.environment_text import environment_text
from tare.cli.launch_command import make_plan
from tare.cli.options import LaunchOptions
from tare.errors import StudyError, UsageError
from tare.model import (
    Binding,
    Control,
    Environment,
    KubernetesSpec,
    LabSpec,
    Launching,
    Link,
    Placement,
    PlacementChange,
    Repetition,
    Share,
    Sides,
    Study,
    Tracking,
    Workload,
)
from tare.mpi.defaults import with_transport
from tare.study import environment, moved, parse
from tare.study.cluster_keys import ClusterIn
from tare.study.convert import to_model
from tare.study.plan.cells import digest, expand
from tare.study.schema import EnvironmentIn, PlacementIn, RepetitionIn, StudyIn, WorkloadIn
from tare.study.shorthand import Expander
from tare.study.value_types import Checked
from tare.study.yaml_nodes import plain, read_yaml
from unit.study_texts import WORK

GOOD = '{"name": "x", "type": "ptp", "ipam": {"type": "static", "addresses": [{"address": "${cidr}"}]}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.conf").write_text(GOOD)
    (tmp_path / "bad.conf").write_text('{"name": "x",\n}')
    return tmp_path


def network_of(folder: Path, stated: str) -> str:
    text = f"environments: {{bare: , mine: {{runtime: bare, network: {stated}}}}}{WORK}"
    return parse(text, base=folder).environments[1].network


@pytest.mark.parametrize("stated", ["{cni: mine.conf}", "{cni: ./mine.conf}", "cni:mine.conf", "'cni:x/../mine.conf'"])
def test_a_path_begins_at_the_study_and_has_one_form(folder: Path, stated: str) -> None:
    assert network_of(folder, stated) == f"cni:{folder}/mine.conf"


def test_a_cni_path_can_be_in_a_shorthand_or_a_launch_and_two_files_are_two_networks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"environments: {{bare: , mine: 'docker+cni:mine.conf'}}{WORK}"
    mine = parse(text, base=folder).environments[1]
    assert (mine.runtime, mine.network) == ("docker", f"cni:{folder}/mine.conf")
    monkeypatch.chdir(folder)
    assert environment("bare+cni:mine.conf").network == f"cni:{folder}/mine.conf"
    with pytest.raises(StudyError, match=r"the name says bridge, but this says cni:mine\.conf"):
        parse(f"environments: {{bare: , docker+bridge: {{network: {{cni: mine.conf}}}}}}{WORK}", base=folder)
    (folder / "other.conf").write_text(GOOD)
    made = [
        parse(f"environments: {{bare: , mine: {{runtime: bare, network: {{cni: {name}}}}}}}{WORK}", base=folder)
        for name in ("mine.conf", "other.conf")
    ]
    assert digest(made[0]) != digest(made[1])
    monkeypatch.chdir(folder)
    plan = make_plan(LaunchOptions(command=["true"], network="cni:mine.conf", mpi="openmpi", nodes=2, ranks=2))
    assert {cell.environment.network for cell in plan.cells} == {f"cni:{folder}/mine.conf"}


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("{cni: none.conf}", "not found: name a CNI configuration"),
        ("{cni: bad.conf}", "bad.conf:2:1: this is not valid JSON"),
        ("{cni: }", "write a network by its name, or as {cni: PATH}"),
        ("{cni: mine.conf, mtu: 9000}", "write a network by its name, or as {cni: PATH}"),
        ("{cnj: mine.conf}", "write a network by its name, or as {cni: PATH}"),
        ("'cni:'", "unknown network 'cni:'"),
        ("[cni]", "environments.mine.network"),
        ("", "environments.mine.network"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_in_the_study(folder: Path, stated: str, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        network_of(folder, stated)
    assert words in str(caught.value)
    assert str(caught.value).startswith("study:1:46: ")


TEXT = """
environments:
  bare:
  limited: {{runtime: bare, placement: {{{change}}}}}
placements: [1x2 in 2c]
workloads: {{messages: {{kernels: [latency]}}}}
"""


def stated(tmp_path: Path, change: str) -> Study:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT.format(change=change))
    return study.load(path)


def test_only_the_cells_of_the_environment_are_placed_otherwise(tmp_path: Path) -> None:
    plan = expand(stated(tmp_path, "binding: mpi-default, cpus_per_container: 0.5"), lambda *_: None)
    placements = {cell.environment.name: cell.placement for cell in plan.cells}
    usual = Placement(nodes=1, ranks_per_node=2, containers_per_node=2)
    assert placements["bare"] == placements["bare (A/A)"] == usual
    assert placements["limited"].binding is Binding.MPI_DEFAULT
    assert placements["limited"].cpus_per_container == 0.5
    assert len({cell.group for cell in plan.cells}) == 1


def test_a_change_of_placement_is_named_if_it_cannot_be_and_changes_the_digest_if_it_is_one(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"environments\.limited\.placement"):
        stated(tmp_path, "containers_per_node: 3")
    assert not PlacementChange()
    assert PlacementChange().of(Placement(nodes=3)) == Placement(nodes=3)
    one, other = (stated(tmp_path, f"cpus_per_container: {cpus}") for cpus in (0.5, 0.25))
    assert digest(one) != digest(other)


MOVED_TEXT = """
cluster: {cluster}
environments: {{bare: , own: {{runtime: bare, launch: daemon}}}}
placements: [2x1]
workloads: {{micro: {{kernels: [barrier]}}}}
"""


def moved_study(cluster: str = "slurm") -> Study:
    return parse(MOVED_TEXT.format(cluster=cluster))


def launches(stated: Study) -> list[Launching]:
    return [each.launch for each in stated.environments]


def test_a_launcher_is_that_of_environments_that_name_none_and_means_another_name() -> None:
    by_srun = moved(moved_study(), None, launcher="srun")
    assert launches(by_srun) == [Launching.SRUN, Launching.DAEMON]
    assert by_srun.lab.slurm.srun
    assert launches(moved(moved_study(), None)) == [Launching.EXEC, Launching.DAEMON]
    own = moved_study()
    assert moved(own, None).name == own.name
    assert moved(own, None, launcher="srun").name == f"{own.name}-srun"
    assert moved(own, None, launcher="mpirun").name == own.name
    assert moved(moved_study("lab"), "slurm", launcher="srun").name == f"{own.name}-slurm-srun"
    stated = moved_study("{slurm: {launcher: srun}}")
    assert launches(moved(stated, None)) == [Launching.SRUN, Launching.DAEMON]
    back = moved(stated, None, launcher="mpirun")
    assert launches(back) == [Launching.EXEC, Launching.DAEMON]
    assert back.name == f"{stated.name}-mpirun"
    assert launches(moved(stated, "lab")) == [Launching.EXEC, Launching.DAEMON]  # there is no srun there


@pytest.mark.parametrize(
    ("cluster", "launcher", "part"),
    [("slurm", "srum", "srum"), ("lab", "srun", "cluster lab has one launcher"), ("slrum", "", "slrum")],
)
def test_a_launcher_or_cluster_that_cannot_be_is_refused(cluster: str, launcher: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        moved(moved_study(), cluster, launcher=launcher)


STUDY = "environments:\n  bare:\n{entry}workloads: {{w: {{kernels: [latency]}}}}\n"
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
LINKS = st.builds(
    Link,
    mtu=st.sampled_from([0, 1500, 9000]),
    offloads=st.sampled_from([(), ("gro=off", "gso=off", "tso=off"), ("tso=on",)]),
    rps=st.sampled_from(["", "all", "off"]),
    delay_s=st.sampled_from([0.0, 1e-5, 0.25]),
    rate_bps=st.sampled_from([0, 10**9]),
    queue=st.sampled_from([0, 50]),
    br_netfilter=st.sampled_from([None, True, False]),
    conntrack=st.sampled_from(Tracking),
)
PLACEMENTS = st.builds(
    PlacementChange,
    containers_per_node=st.sampled_from([None, 2]),
    share=st.sampled_from([None, *Share]),
    binding=st.sampled_from([None, *Binding]),
    memory_per_container=st.sampled_from([None, 0, 2**30]),
    cpus_per_container=st.sampled_from([None, 0.0, 0.5]),
)
NUMBERS = st.one_of(st.floats().map(str), st.from_regex(r"[-+]?[0-9]{1,3}[.]?[eExX:_]?[-+]?[0-9]{0,2}", fullmatch=True))
VARIABLES = st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), WORDS | NUMBERS, max_size=3)
ENVIRONMENTS: st.SearchStrategy[Environment] = st.builds(
    Environment,
    name=st.sampled_from(["slow-remedied", "docker+overlay-remedied", "bare+dockerd-remedied", "bare+image+bridge-x"]),
    runtime=st.sampled_from(["bare", "docker", "apptainer"]),
    network=st.sampled_from(["host", "bridge", "overlay", "cni:/etc/a b.conflist"]),
    image=st.sampled_from([*study.KNOWN.images, "/images/own.tar"]),
    transport=st.sampled_from(["tcp", "ofi:tcp", "shm", "auto"]),
    mpi=st.sampled_from(["openmpi", "mpich"]),
    sides=st.sampled_from(Sides),
    launch=st.sampled_from(Launching),
    control=st.sampled_from(Control),
    ssh_port=st.sampled_from([0, 2222]),
    devices=st.sampled_from([(), ("infiniband",)]),
    binds=st.sampled_from([(), ("/a:/b:ro",)]),
    workdir=st.sampled_from(["", "/work"]),
    env=VARIABLES.map(lambda values: tuple(f"{name}={value}" for name, value in values.items())),
    link=LINKS,
    daemon=st.sampled_from(["", "docker"]),
    placement=PLACEMENTS,
    runtime_class=st.sampled_from(["", "host-gw"]),
    shm_size=st.sampled_from([0, 64 << 20]),
)


def read(environment: Environment) -> Environment:
    """Return what a study that has this entry means by it, before the checks of rules between keys."""
    entry = "".join(f"  {line}\n" for line in environment_text(environment).splitlines())
    problems: list[Any] = []
    root = read_yaml(STUDY.format(entry=entry), "study", problems)
    assert root is not None
    tree = Expander(study.KNOWN, problems).study(root)
    assert not problems, [problem.message for problem in problems]
    stated = to_model(StudyIn.model_validate(plain(tree), context=study.KNOWN), "study", Path.cwd())
    return stated.environments[1]


@given(environment=ENVIRONMENTS)
@settings(max_examples=80, deadline=None)
def test_an_environment_is_read_as_it_was_written(environment: Environment) -> None:
    assert read(environment) == environment


def test_what_is_usual_is_left_out_of_yaml_and_what_steers_a_terminal_escaped() -> None:
    environment = with_transport(Environment(name="x", runtime="bare", network="host"))
    assert environment_text(environment) == "x:\n  runtime: bare\n  network: host\n"
    assert read(environment) == environment
    text = environment_text(Environment(name="x\x1b[2J", runtime="bare", network="host", env=("A=\x9b\u202e",)))
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    environment = Environment(name="x", runtime="bare", network="host", env=("A=1", "B=x=y", "C=", "D=0E0"))
    assert read(environment) == environment


@pytest.mark.parametrize(
    ("form", "made"),
    [
        (PlacementIn, Placement()),
        (EnvironmentIn, Environment(name="x", runtime="bare", network="host")),
        (WorkloadIn, Workload(name="x")),
        (RepetitionIn, Repetition(turns=20)),
        (ClusterIn, LabSpec()),
        (ClusterIn, KubernetesSpec()),
    ],
)
def test_a_key_that_is_left_out_has_the_default_of_the_model(form: type[Checked], made: Any) -> None:
    stated = {name: () if each.default == [] else each.default for name, each in form.model_fields.items()}
    simple = {name: value for name, value in stated.items() if isinstance(value, int | float | str | tuple)}
    named = simple.keys() & {each.name for each in fields(made)} - {"kubernetes"}
    assert {name: simple[name] for name in named} == {name: getattr(made, name) for name in named}
    assert named
