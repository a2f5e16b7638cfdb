"""The launch: one frozen value from which everything that starts a job is generated.

`head` says where the launcher runs, `launcher` what it is, a host's `agent` how the launcher starts its daemon there,
and `enter(local_rank)` what is put before a rank's argv. It is written to one map file, which `tare-agent` reads.
srun has no agent: it leaves it empty. This module is pure, but for `write_map`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

PADDING: Final = "TARE_PADDING"
"""The variable whose length is varied from trial to trial: the environment's size moves stacks, and with them figures
(Mytkowicz et al., ASPLOS'09)."""

BIND_SCRIPT: Final = (
    "rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${PMI_LOCAL_RANK:-$SLURM_LOCALID}}}; "
    ": ${rank:?no MPI told the local rank}; "
    'all=$1; shift; cores=$(echo "$all" | cut -d" " -f$((rank + 1))); exec taskset -c "$cores" "$@"'
)
"""What binds a rank: its first argument lists the cores of all local ranks, separated by blanks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How to start a process at a place: cgroups to join, cores to run on, argv to put before its own.

    `shell` says that a daemon's command line is one string for the place's shell, as rsh has it; ssh has a shell of its
    own, so there it is false. `carry` says that the place forgets the environment of who enters it (docker exec,
    kubectl exec, ssh), so that the launch's and the MPI's variables have to be put before the command.
    """

    argv: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    shell: bool = True
    carry: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing has to be done to start a process here."""
        return not (self.argv or self.cgroups or self.cpus)

    def as_json(self) -> dict[str, Any]:
        """Return the entry as the launch map holds it."""
        return {
            "argv": list(self.argv),
            "cgroups": list(self.cgroups),
            "cpus": list(self.cpus),
            "shell": self.shell,
            "carry": self.carry,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host as the MPI sees it. `agent` None: the scheduler starts its ranks; `enter[i]` belongs to local rank i."""

    name: str
    ranks: int
    agent: Entry | None = None
    enter: tuple[Entry, ...] = ()
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A part of a job that runs one program: hosts, argv of each rank, and the variables carried into it.

    A job has one, unless its sides differ (the environment on one side only, with its own files). `options` is how
    the launcher is told hosts, ranks and variables; its MPI's plug-in makes it.
    """

    hosts: tuple[Host, ...]
    program: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Return the number of ranks of this part."""
        return sum(host.ranks for host in self.hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A job, ready to start.

    `head` is the argv prefix that brings the launcher to its place, `launcher` its argv without the programs,
    `contexts` what the ranks run, in order of ranks. `master` is the host that the launcher is entered through, where
    it does not start at the head.
    """

    head: tuple[str, ...]
    launcher: tuple[str, ...]
    hosts: tuple[Host, ...]
    contexts: tuple[Context, ...]
    master: Entry | None = None

    def agent(self, host: str) -> Entry | None:
        """Return how the launcher starts its daemon on a host."""
        return self._host(host).agent

    def enter(self, host: str, local_rank: int) -> Entry:
        """Return what is put before the argv of a rank; empty where the daemon is already at the right place."""
        entries = self._host(host).enter
        return entries[local_rank] if entries else Entry()

    @property
    def ranks(self) -> int:
        """Return the number of ranks of the job."""
        return sum(host.ranks for host in self.hosts)

    @property
    def wraps_ranks(self) -> bool:
        """Tell whether ranks are started through `tare-agent --rank`."""
        return any(not entry.is_empty for host in self.hosts for entry in host.enter)

    def argv(self, agent_program: str) -> tuple[str, ...]:
        """Return the whole command line; `agent_program` is the path of tare-agent."""
        wrapper = (agent_program, "--rank") if self.wraps_ranks else ()
        parts: list[str] = []
        for context in self.contexts:
            parts += [":"] if parts else []
            parts += [*context.options, *wrapper, *context.program]
        head = self.head
        if self.master is not None:
            head = (agent_program, "--entry", json.dumps(self.master.as_json()), "--")
        return (*head, *self.launcher, *parts)

    def as_map(self) -> dict[str, Any]:
        """Return the launch map: JSON-ready, and all that `tare-agent` needs."""
        return {
            "hosts": {
                host.name: {
                    "agent": host.agent.as_json() if host.agent is not None else None,
                    "ranks": [self.enter(host.name, i).as_json() for i in range(host.ranks)],
                }
                for host in self.hosts
            }
        }

    def _host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)


def contexts(
    hosts: tuple[Host, ...], programs: tuple[tuple[str, ...], ...], environments: tuple[Mapping[str, str], ...]
) -> tuple[Context, ...]:
    """Return the contexts of a job: neighbouring hosts with the same program and variables share one."""
    made: list[Context] = []
    for host, program, environment in zip(hosts, programs, environments, strict=True):
        if made and (made[-1].program, dict(made[-1].environment)) == (program, dict(environment)):
            last = made.pop()
            made.append(replace(last, hosts=(*last.hosts, host)))
        else:
            made.append(Context(hosts=(host,), program=program, environment=environment))
    return tuple(made)


def bound(program: tuple[str, ...], cores: Sequence[tuple[int, ...]]) -> tuple[str, ...]:
    """Return a program that each rank of a host starts on cores of its own; `cores` is in order of local ranks.

    The shell and taskset are there in every container; MPIs' own binding sees the whole machine from inside one.
    """
    lists = " ".join(",".join(map(str, own)) for own in cores)
    return ("/bin/sh", "-c", BIND_SCRIPT, "tare-bind", lists, *program)


def write_map(launch: Launch, path: Path) -> None:
    """Write the launch map to a file."""
    path.write_text(json.dumps(launch.as_map()))


def write_agent(folder: Path, interpreter: str) -> Path:
    """Write `tare-agent` into a folder as a program that starts at once, and return its path.

    The MPI splits its agent's name at blanks and the virtual environment's start-up costs tens of milliseconds, so
    the one-file agent is copied behind the plainest interpreter.
    """
    source = (Path(__file__).parent / "agent.py").read_text()
    program = folder / "tare-agent"
    program.write_text(f"#!{interpreter} -IS\n{source}")
    program.chmod(0o755)
    return program
