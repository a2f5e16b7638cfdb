"""Reach the nodes of a Slurm allocation: each connection is a step of the job on one node; steps overlap."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tare.agent.remote.conversation import Conversation
from tare.agent.remote.machine import Machine
from tare.clusters.base import Allocated
from tare.clusters.connections import Connections
from tare.clusters.slurm_allocation import Allocation, need, towards
from tare.errors import RefusedError
from tare.mpi.launch.srun import srun

STEP: Final = ("--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none", "--job-name=tare")
HARMLESS: Final = re.compile(r"lacks support for cpu binding|^srun: (?:info|debug)", re.IGNORECASE)
SENTENCES: Final = (
    (re.compile(r"Job/step already completing or completed|Invalid job id|has expired|DUE TO TIME LIMIT|CANCELLED"),
     "the allocation has ended"),
    (re.compile(r"Step limit|maximum.*steps", re.IGNORECASE),
     "the job has reached the site's limit of steps (MaxStepCount): submit it again to continue"),
    (re.compile(r"Requested nodes are busy|temporarily disabled|Required node not available|node.*not responding|"
                r"Node failure|NODE FAIL|Communication connection failure|Unable to contact"),
     "Slurm cannot start a step there: see `sinfo -R`"),
    (re.compile(r"python3: (?:command )?not found|exec: python3|python3: No such file"),
     "it has no python3 in PATH: install Python 3.9 or later there, or load a module in the batch script"),
    (re.compile(r"Invalid account|Invalid qos|Access/permission denied", re.IGNORECASE), "Slurm refuses the step"),
    (re.compile(r"task \d+: (?:Killed|Terminated)"), "something has killed the step there: see its slurmd's log"),
)  # fmt: skip


def step_argv(program: str, job: str, node: str) -> tuple[str, ...]:
    """Return the argv prefix that runs one string on a node of a job, in a step that shares the job's resources."""
    return (*srun(program, "--chdir=/", f"--jobid={job}", *STEP, f"--nodelist={node}"), "/bin/sh", "-c")


class SlurmConnections(Connections):
    """Connections to the nodes of an allocation by steps of it."""

    def __init__(self, allocation: Allocation, wanted: int) -> None:
        self.allocation = allocation
        self._program = need("srun")
        super().__init__(allocation.names[:wanted], kind="slurm")
        check_same_type(self.hosts, self.machines)

    @property
    def allocated(self) -> Allocated:
        own = self.allocation
        return Allocated(label=own.label, nodes=self.hosts, ends_unix_s=own.ends_unix_s)

    def opening(self, number: int) -> tuple[str, ...]:
        return self.reach(number)

    def reach(self, number: int) -> tuple[str, ...]:
        return step_argv(self._program, self.allocation.job, self.hosts[number])

    def explain(self, number: int, words: str) -> str:
        return explained(words, self.hosts[number])

    def connect(self, number: int) -> tuple[Conversation, Machine]:
        conversation, machine = super().connect(number)
        own = self.allocation.addresses[number]
        return conversation, replace(machine, reached=(towards(own), own))


def explained(words: str, node: str) -> str:
    """Return why a step failed, from what srun wrote; if it is nothing known, its last line and what to try."""
    lines = [line.strip() for line in words.splitlines() if line.strip() and not HARMLESS.search(line)]
    for pattern, sentence in SENTENCES:
        if any(pattern.search(line) for line in lines):
            return sentence
    if not lines:
        return "the step has ended"
    return f"{lines[-1].removeprefix('srun: ').removeprefix('error: ')[:300]}: try `srun --overlap -w {node} hostname`"


def check_same_type(hosts: tuple[str, ...], machines: tuple[Machine, ...]) -> None:
    """Raise `RefusedError` if the nodes differ in processor, number of cores or kernel."""
    types: dict[str, list[str]] = {}
    for host, machine in zip(hosts, machines, strict=True):
        described = f"{machine.cpu}, {len(machine.cores)} cores, Linux {machine.kernel}"
        types.setdefault(described, []).append(host)
    if len(types) > 1:
        listed = "; ".join(
            f"{', '.join(names[:4])}{', ...' * (len(names) > 4)}: {kind}" for kind, names in types.items()
        )
        raise RefusedError(
            f"the nodes of this allocation are of {len(types)} types, whose figures cannot be compared: {listed}",
            remedy="ask for one type, by partition or constraint",
        )
