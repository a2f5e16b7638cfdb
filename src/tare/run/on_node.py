"""Run a launch's commands on the first node, in place of ranks, and afterwards the commands that undo them.

Commands run in the node's namespaces, next to the environment's pod. They run only if the treatment is proven: they
reach the first node, and the daemon that they talk to holds the environment's pod there. The launch writes records as
tare's programs do; the workload's plug-in reads them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tare.clusters import Site
from tare.daemons.daemons import agent_argv
from tare.model import Cell, NodeCommand, Workload
from tare.mpi.launch import Entry, Launch
from tare.mpi.launch.agent import CARRIED
from tare.run import job
from tare.run.deploy.hosts import Deployed
from tare.runtimes import RUNTIMES
from tare.runtimes.containers.held_namespaces import enter
from tare.system.node import Pod
from tare.system.process import Result, run
from tare.system.signals import uninterrupted
from tare.workloads import answers, plugin_of
from tare.workloads.output import PROTOCOL
from tare.workloads.parts import PREFIX

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
INHERITED: Final = (*CARRIED, "TARE_RUN")
"""What commands get of the head's environment; the last marks processes that a killed run leaves on a machine."""
PAUSE_S: Final = 0.2
"""Pause before a command is repeated."""
PROOF_S: Final = 15.0
UNDO_S: Final = 20.0
"""Longest time for all commands that undo a launch, in which Ctrl-C is delayed."""
LEAST_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Runs commands on the node of one host of a deployment."""

    site: Site
    pod: Pod

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return a command with its words replaced."""
        return answers.replaced(words, self.pod.client.words)

    def argv(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the argv that runs a command on the node, started on the head."""
        node = self.pod.node
        entry = Entry(
            argv=enter(node.pid),
            cgroups=() if node.is_machine else tuple(str(folder) for folder in node.group.leaf.folders),
            cpus=node.cores,
            via=self.site.reach(node),
            attached=self.site.allocation is not None,
            variables=tuple(self.pod.client.variables.items()),
        )
        program, *rest = self.words(words)
        return agent_argv(entry.as_json(), (self.pod.client.programs.get(program, program), *rest))

    def run(self, words: Sequence[str], *, timeout_s: float) -> Result:
        """Run a command to its end or its time limit."""
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return run(
            self.argv(words),
            env=kept,
            timeout_s=timeout_s,
            cwd=Path("/"),
            check=False,
            started=self.site.adopt if self.pod.node.is_machine else None,
        )


def prepared(site: Site, cell: Cell, up: Deployed, agent: Path, *, name: str) -> job.LaunchCommand:
    """Return the command of a cell's launch: that of its ranks, or the commands on the node, for the record."""
    if not plugin_of(cell.workload).runs_on_node:
        return job.command_of(site, up, job.make_launch(site, cell, up), agent, name=name)
    shell = Shell(site=site, pod=up.pods[0])
    listed = [shell.words(command.run) for command in cell.workload.commands]
    argv = tuple(word for number, words in enumerate(listed) for word in ((";",) if number else ()) + words)
    launch = Launch(head=(), launcher=argv, hosts=(), contexts=())
    return job.LaunchCommand(launch=launch, argv=argv, environment=up.pods[0].client.variables)


def run_commands(site: Site, up: Deployed, workload: Workload) -> Result:
    """Run the commands of a launch until one answers otherwise than expected, and undo them; return their records."""
    shell = Shell(site=site, pod=up.pods[0])
    began_s = time.monotonic()
    treatment = _treatment(shell, is_fake=RUNTIMES[up.environment.runtime].is_fake)
    said: list[Mapping[str, Any]] = [{"type": "start", "protocol": PROTOCOL, "ranks": 0}, treatment]
    limit_hit = ""
    try:
        for command in workload.commands if not treatment["refuted"] else ():
            answer, timed_out = _answer(shell, command, until_s=began_s + workload.time_limit_s)
            said.append(answer)
            if timed_out:
                limit_hit = answers.shown(shell.words(command.run))
            if timed_out or answer["complaint"]:
                break
    finally:
        ended_s = time.monotonic()
        if not treatment["refuted"]:
            with uninterrupted():
                _undo(shell, workload)
    said.append({"type": "end"})
    return Result(
        argv=(),
        status=-1 if limit_hit else 0,
        stdout="".join(f"{PREFIX}{json.dumps(record)}\n" for record in said),
        stderr="",
        elapsed_s=ended_s - began_s,
        timed_out=bool(limit_hit),
        began_s=began_s,
        at_limit=limit_hit,
    )


def _treatment(shell: Shell, *, is_fake: bool) -> dict[str, Any]:
    """Return the record that says why the commands would not run in the environment, if so."""
    return {"type": "treatment", "refuted": "" if is_fake else _refuted(shell)}


def _refuted(shell: Shell) -> str:
    node, client = shell.pod.node, shell.pod.client
    read = shell.run(("cat", BOOT_ID), timeout_s=PROOF_S)
    if read.stdout.strip() != node.boot_id:
        why = read.stderr_tail[-answers.SHOWN :] or "its boot ID is another one"
        return f"commands for {node.name} do not run on it: {why}"
    if client.holds and (asked := shell.run(client.holds, timeout_s=PROOF_S)).status != 0:
        why = asked.stderr_tail[-answers.SHOWN :] or f"status {asked.status}"
        return f"the daemon that commands on {node.name} reach does not hold the environment's container: {why}"
    return ""


def _answer(shell: Shell, command: NodeCommand, *, until_s: float) -> tuple[dict[str, Any], bool]:
    """Run a command until it answers as expected, or its time is up; return its record, and whether it did not end."""
    began_s = time.monotonic()
    last_s = min(until_s, began_s + command.within_s)
    words = shell.words(command.run)
    tries = 0
    while True:
        tries += 1
        result = shell.run(command.run, timeout_s=max(LEAST_S, until_s - time.monotonic()))
        complaint = answers.complaint(command, words, result.status, result.stdout, result.stderr)
        if not complaint or result.timed_out or time.monotonic() + PAUSE_S > last_s:
            break
        time.sleep(PAUSE_S)
    took_s = time.monotonic() - began_s
    return {"type": "answer", "took_s": took_s, "tries": tries, "complaint": complaint}, result.timed_out


def _undo(shell: Shell, workload: Workload) -> None:
    """Run the commands that undo a launch; what one is to remove may never have been made."""
    until_s = time.monotonic() + UNDO_S
    for words in workload.undo:
        shell.run(words, timeout_s=max(LEAST_S, until_s - time.monotonic()))
