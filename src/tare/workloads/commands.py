"""Define `commands`: what commands of a product do on a node, each with the answer that is expected.

A launch starts no rank. It runs the commands on the first node (`tare.run.on_node`), where the environment's product is
set up, and is completed if every command answered as expected.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.model import Environment, MetricInfo, MetricKind, Placement, Sides, Workload
from tare.model.text import printable
from tare.networks import find
from tare.runtimes import RUNTIMES
from tare.workloads.answers import words_in
from tare.workloads.gate import gate
from tare.workloads.output import LaunchTiming, OutputError, Parsed, Payload, metric_of, number, records
from tare.workloads.plugin import WorkloadPlugin

ALL: Final = MetricInfo(
    key="all",
    label="all commands",
    kind=MetricKind.COST,
    statistic="sum over commands",
    group="",
    judged=False,
)
EXPECTED_S: Final = 5.0
LEAST_S: Final = 1e-9


class Commands(WorkloadPlugin):
    """Run commands on the first node, in order."""

    name = "commands"
    timer = "CLOCK_MONOTONIC of the head"
    synchronisation = "none: one command after the other"
    reduction = ALL.statistic
    knows_time = False
    runs_on_node = True

    def serves(self, workload: Workload) -> bool:
        return bool(workload.commands)

    def argv(self, workload: Workload, prefix: Path) -> tuple[str, ...]:
        return workload.commands[0].run

    def metrics(self, workload: Workload, placement: Placement) -> tuple[MetricInfo, ...]:
        return (replace(ALL, group=workload.name),)

    def parse(self, workload: Workload, stdout: str, began: LaunchTiming | None = None) -> Parsed:
        return gate(lambda: _parsed(workload, stdout))

    def refuse_environment(self, workload: Workload, environment: Environment) -> str | None:
        if environment.sides is not Sides.BOTH:
            return "commands run on the first node, which may be the bare one here: use sides: both"
        every = [*(command.run for command in workload.commands), *workload.undo]
        own = RUNTIMES[environment.runtime].clients
        for program in dict.fromkeys(words[0] for words in every):
            others = [name for name, runtime in RUNTIMES.items() if program in runtime.clients]
            if others and program not in own:
                return f"its commands call {program}, which {environment.runtime} does not set up: use {others[0]}"
        named = {word for words in every for word in words_in(words)}
        if "image" in named and not environment.image:
            return f"its commands name an image, but {environment.runtime} here uses the host's files"
        if "network" in named and not find(environment.network).name_in_docker("0"):
            return f"its commands name a network of Docker, and {environment.network} is none: leave {{network}} out"
        return None

    def expected_s(self, workload: Workload, placement: Placement) -> float:
        return EXPECTED_S


def _parsed(workload: Workload, stdout: str) -> Parsed:
    all_records = records(stdout)
    treatment = next((record for record in all_records if record["type"] == "treatment"), None)
    if treatment is None:
        raise OutputError("nothing says where the commands ran")
    refuted = printable(str(treatment["refuted"]))
    answers = [record for record in all_records if record["type"] == "answer"]
    for answer in answers:
        if answer["complaint"]:
            raise OutputError(str(answer["complaint"]))
    if not refuted and len(answers) != len(workload.commands):
        raise OutputError(f"only {len(answers)} of {len(workload.commands)} commands were run")
    took_s = max(LEAST_S, sum(number(answer["took_s"]) for answer in answers))
    return Parsed(
        metrics=(metric_of(ALL, took_s),),
        ranks=(),
        payload=Payload(),
        mpi_library="",
        init_s=0.0,
        measured_s=took_s,
        refuted=refuted,
    )
