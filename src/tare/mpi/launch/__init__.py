"""Describe a job's launch as one frozen value, from which its command line and launch map are generated.

`head` is where the launcher runs and `launcher` its command. A host's `agent` is how the launcher starts its daemon
there, and `enter(local_rank)` is the prefix of a rank's argv. The launch is written to one map file, which `tare-agent`
reads. srun has no agent, so it leaves it empty. This module is pure, except for `write_map` and `write_agent`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

PADDING: Final = "TARE_PADDING"
"""The variable with a launch's key, a colon and a padding. The key marks its records (kernels/common/output.h); the
padding's length varies, because the size of the environment shifts stacks, and timings with them (Mytkowicz et al.,
ASPLOS'09)."""

RANK_OF_HOST: Final = "${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${PMI_LOCAL_RANK:-$SLURM_LOCALID}}}"
RANK_OF_JOB: Final = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$PMI_ID}}"
BIND_SCRIPT: Final = (
    f"rank={RANK_OF_HOST}; "
    ": ${rank:?no MPI told the local rank}; "
    'all=${TARE_BIND:-$1}; shift; [ "$all" ] || exec "$@"; '
    'cores=$(echo "$all" | cut -d" " -f$((rank + 1))); exec taskset -c "$cores" "$@"'
)
"""The script that binds a rank: its first argument, or $TARE_BIND, lists the cores of all local ranks, separated by
blanks; without either it is not bound."""
BY_NAME: Final = ("--env", PADDING)
"""The options by which `docker exec` and `podman exec` take the padding from their own environment: every user of the
machine can read a value among their arguments, and the key is secret."""
BIND: Final = "TARE_BIND"
"""The variable that lists the cores where one command line starts the ranks of all hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How to start a process in a place: cgroups to join, cores to run on, argv prefix.

    `shell` means that a daemon's command line is one string for the place's shell, as with rsh; it is false for ssh,
    which has a shell of its own. `carry` means that the place drops the caller's environment (docker exec, kubectl
    exec, ssh), so the variables of the launch and the MPI must be put before the command. `via` is the argv that runs
    one string with the shell of another machine (ssh), where all the rest of the entry then applies; `attached`
    means that a daemon must not leave the process that `via` starts, with which all of its processes end. `variables`
    are set for what is started. `keeps` are the names of variables that a daemon gets from the launcher's environment
    in addition to the usual ones, `drops` those that a rank does not take along from its daemon's.
    """

    argv: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    shell: bool = True
    carry: bool = False
    via: tuple[str, ...] = ()
    attached: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    keeps: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether a process can be started here without any preparation."""
        return not (self.argv or self.cgroups or self.cpus or self.via or self.variables)

    def as_json(self) -> dict[str, Any]:
        """Return the entry in the format of the launch map."""
        return {
            "argv": list(self.argv),
            "cgroups": list(self.cgroups),
            "cpus": list(self.cpus),
            "shell": self.shell,
            "carry": self.carry,
            **({"via": list(self.via)} if self.via else {}),
            **({"attached": True} if self.attached else {}),
            **({"variables": dict(self.variables)} if self.variables else {}),
            **({"keeps": list(self.keeps)} if self.keeps else {}),
            **({"drops": list(self.drops)} if self.drops else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host as the MPI sees it; `enter[i]` is for local rank i.

    If `agent` is None, a scheduler starts its ranks, to which the host is known as `alias`.
    """

    name: str
    ranks: int
    agent: Entry | None = None
    enter: tuple[Entry, ...] = ()
    address: str = ""
    alias: str = ""

    def entry(self, local_rank: int) -> Entry:
        """Return the prefix of a rank's argv; empty if the daemon is already in the right place."""
        return self.enter[local_rank] if self.enter else Entry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A part of a job that runs one program: hosts, argv of each rank, and the variables passed to it.

    A job has one context, unless its sides differ (the environment on one side only, with its own files). `options` are
    the launcher's options for hosts, ranks and variables; the MPI's plug-in generates them.
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

    `head` is the argv prefix that starts the launcher in its place, `launcher` its argv without the programs,
    `contexts` what the ranks run, in order of ranks. `master` is how to enter the launcher's host if the launcher does
    not start on the head. `wrapper` is the argv prefix by which ranks enter their containers if `tare-agent` is not
    there.
    """

    head: tuple[str, ...]
    launcher: tuple[str, ...]
    hosts: tuple[Host, ...]
    contexts: tuple[Context, ...]
    master: Entry | None = None
    wrapper: tuple[str, ...] = ()

    def agent(self, host: str) -> Entry | None:
        """Return how the launcher starts its daemon on a host."""
        return self._host(host).agent

    def enter(self, host: str, local_rank: int) -> Entry:
        """Return the prefix of a rank's argv; empty if the daemon is already in the right place."""
        return self._host(host).entry(local_rank)

    @property
    def ranks(self) -> int:
        """Return the number of ranks of the job."""
        return sum(host.ranks for host in self.hosts)

    @property
    def wraps_ranks(self) -> bool:
        """Return whether ranks are started through `tare-agent --rank`, or the launch's `wrapper`."""
        return any(not entry.is_empty for host in self.hosts for entry in host.enter)

    def argv(self, agent_program: str) -> tuple[str, ...]:
        """Return the whole command line; `agent_program` is the path of tare-agent."""
        wrapper = (self.wrapper or (agent_program, "--rank")) if self.wraps_ranks else ()
        parts: list[str] = []
        for context in self.contexts:
            parts += [":"] if parts else []
            parts += [*context.options, *wrapper, *context.program]
        head = self.head
        if self.master is not None:
            head = (agent_program, "--entry", json.dumps(self.master.as_json()), "--")
        return (*head, *self.launcher, *parts)

    def as_map(self) -> dict[str, Any]:
        """Return the launch map: JSON-ready, with everything that `tare-agent` needs."""
        return {
            "hosts": {
                host.name: {
                    "agent": host.agent.as_json() if host.agent is not None else None,
                    "ranks": [host.entry(i).as_json() for i in range(host.ranks)],
                    **({"alias": host.alias} if host.alias else {}),
                }
                for host in self.hosts
            }
        }

    def _host(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)


def bound(program: tuple[str, ...], cores: Sequence[tuple[int, ...]]) -> tuple[str, ...]:
    """Return a program that binds each rank of a host to its own cores; `cores` is in order of local ranks.

    Every container has a shell and taskset. An MPI's own binding is not used, because it sees the whole machine even
    from inside a container.
    """
    return ("/bin/sh", "-c", BIND_SCRIPT, "tare-bind", core_lists(cores), *program)


def bound_by_rank(program: tuple[str, ...], cores: Sequence[tuple[int, ...]]) -> tuple[str, ...]:
    """Return a program that binds each rank of a job; `cores` is in order of ranks, so it is the same on all hosts."""
    script = BIND_SCRIPT.replace(RANK_OF_HOST, RANK_OF_JOB)
    return ("/bin/sh", "-c", script, "tare-bind", core_lists(cores), *program)


def core_lists(cores: Sequence[tuple[int, ...]]) -> str:
    """Return the cores of ranks in the form that the script reads."""
    return " ".join(",".join(map(str, of_rank)) for of_rank in cores)


def write_map(launch: Launch, path: Path) -> None:
    """Write the launch map to a file."""
    path.write_text(json.dumps(launch.as_map()))


def write_agent(folder: Path, interpreter: str) -> Path:
    """Write `tare-agent` into a folder as a program that starts quickly, and return its path.

    The MPI splits its agent's name at blanks, and starting a virtual environment's Python takes tens of milliseconds.
    So the one-file agent is copied behind the plainest interpreter.
    """
    source = (Path(__file__).parent / "agent.py").read_text()
    program = folder / "tare-agent"
    program.write_text(f"#!{interpreter} -IS\n{source}")
    program.chmod(0o755)
    return program
