"""An environment that is written as YAML reads as the same environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tare import study
from tare.model import Binding, Control, Environment, Launching, Link, PlacementChange, Share, Sides, Tracking
from tare.mpi.defaults import with_transport
from tare.study.convert import to_model
from tare.study.schema import StudyIn
from tare.study.shorthand import Expander
from tare.study.written import environment_text
from tare.study.yaml_nodes import plain, read_yaml

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
@settings(max_examples=200, deadline=None)
def test_an_environment_is_read_as_it_was_written(environment: Environment) -> None:
    assert read(environment) == environment


def test_files_of_the_host_and_usual_transports_are_left_out() -> None:
    environment = with_transport(Environment(name="x", runtime="bare", network="host"))
    assert environment_text(environment) == "x:\n  runtime: bare\n  network: host\n"
    assert read(environment) == environment


def test_what_steers_a_terminal_is_escaped() -> None:
    text = environment_text(Environment(name="x\x1b[2J", runtime="bare", network="host", env=("A=\x9b\u202e",)))
    assert text.isascii()
    assert text.replace("\n", "").isprintable()


def test_names_of_variables_stay_with_their_values() -> None:
    environment = Environment(name="x", runtime="bare", network="host", env=("A=1", "B=x=y", "C=", "D=0E0"))
    assert read(environment) == environment
