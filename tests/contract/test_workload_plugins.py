"""Every registered workload says what it measures and needs, and takes no other output for a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.compositions import is_sentence
from tare.model import Caches, Environment, KernelSpec, MetricKind, NodeCommand, Placement, Workload
from tare.workloads import WORKLOADS, plugin_of
from tare.workloads.output import LaunchTiming, OutputError
from unit.adapters import ExampleAdapter

MICRO = Workload(
    name="micro",
    kernels=(
        KernelSpec(kernel="latency", message_bytes=8),
        KernelSpec(kernel="bw", message_bytes=1 << 20),
        KernelSpec(kernel="barrier"),
        KernelSpec(kernel="spacing", message_bytes=8, rate_hz=1e4),
    ),
)
APP = Workload(name="app", command=("/home/u/app", "--size", "two words"))
EXAMPLES = {
    "kernels": MICRO,
    "command": APP,
    "startup": Workload(name="start", startup=Caches.WARM),
    "miniapp": Workload(name="cg", miniapp="npb-cg:class=S"),
    "program": Workload(name="theirs", program="example", arguments=("-n", "3")),
    "commands": Workload(name="info", commands=(NodeCommand(run=("docker", "info"), line="Swarm: active"),)),
}


@pytest.fixture(autouse=True)
def example_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.workloads.program.PROGRAMS", {"example": ExampleAdapter()})


def test_every_workload_plugin_has_an_example_here() -> None:
    assert set(EXAMPLES) == set(WORKLOADS)
    assert {name: plugin_of(workload).name for name, workload in EXAMPLES.items()} == {n: n for n in EXAMPLES}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_says_before_it_runs_what_it_measures_and_needs_and_how_long_it_takes(name: str) -> None:
    plugin, workload = WORKLOADS[name], EXAMPLES[name]
    infos = plugin.metrics(workload, Placement())
    assert infos
    assert len({info.key for info in infos}) == len(infos)
    for info in infos:
        assert info.label
        assert info.statistic
        assert info.group == workload.name
        assert (info.done_per_sample > 0) == (info.kind is MetricKind.RATE)
    reason = plugin.refuse(workload, Placement(nodes=3))
    assert reason is None or is_sentence(reason)
    assert plugin.refuse(workload, Placement()) is None
    assert plugin.memory_bytes(workload, Placement()) >= 0
    assert plugin.expected_s(workload, Placement()) >= 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_runs_in_every_environment_or_says_why_it_does_not(name: str) -> None:
    for runtime, network in (("bare", "host"), ("docker", "overlay"), ("apptainer-sif", "host")):
        image = "" if runtime == "bare" else "debian-openmpi"
        environment = Environment(name="e", runtime=runtime, network=network, image=image)
        reason = WORKLOADS[name].refuse_environment(EXAMPLES[name], environment)
        assert reason is None or (WORKLOADS[name].runs_on_node and is_sentence(reason))


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("prefix", ["/opt/tare", "/a/cache"])
def test_the_argv_of_a_workload_is_pure_tokens_under_the_prefix_of_its_place(name: str, prefix: str) -> None:
    plugin, workload = WORKLOADS[name], EXAMPLES[name]
    argv = plugin.argv(workload, Path(prefix))
    assert argv == plugin.argv(workload, Path(prefix))
    assert all(isinstance(token, str) for token in argv)
    if plugin.runs_on_node:
        assert argv == workload.commands[0].run, "it starts no program of tare's"
        return
    ours = [*argv, *plugin.environment(workload, Path(prefix)).values()]
    assert any(token.startswith(prefix) for token in ours)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(
    "said", ["", "hello\n", "@tare {}\n", "@tare 5\n", "@tare null\n", "@tare []\n", '@tare {"type']
)
def test_output_that_is_not_a_launch_of_the_workload_is_never_a_result(name: str, said: str) -> None:
    with pytest.raises(OutputError):
        WORKLOADS[name].parse(EXAMPLES[name], said, LaunchTiming(launched_s=0.0, ended_s=1.0, pods_s=0.1))
