"""`mpich`: MPICH 4.0 over UCX, as Debian 12 has it. Transports and devices are named: none is chosen silently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.errors import RefusedError
from tare.launch import PADDING, Context, Host, Launch, contexts
from tare.model import Binding, Placement
from tare.mpi.wiring import MpiWiring
from tare.process import find, run

PROGRAMS: Final = ("mpiexec.mpich", "mpirun.mpich", "mpiexec.hydra")
TRANSPORTS: Final = ("tcp", "shm")


class Mpich:
    """Launch with Hydra: `mpiexec` and the proxy that it starts on each host."""

    name = "mpich"
    inside = "mpirun"

    def probe(self) -> str | None:
        program = self._program()
        if program is None:
            return "MPICH is not installed: apt-get install mpich"
        version = self.version()
        if not version.startswith("MPICH "):
            return f"{program} is not MPICH but {version!r}: apt-get install mpich"
        if "ucx" not in _build(program):
            return f"{program} belongs to an MPICH without UCX: apt-get install mpich"
        return None

    def version(self) -> str:
        program = self._program()
        if program is None:
            return ""
        build = _build(program)
        found = re.search(r"^\s*Version:\s+(\S+)", build, re.MULTILINE)
        lines = build.splitlines()
        return f"MPICH {found.group(1)}" if found else (lines[0] if lines else "")

    def launch(
        self,
        *,
        head: tuple[str, ...],
        hosts: tuple[Host, ...],
        placement: Placement,
        wiring: MpiWiring,
        programs: tuple[tuple[str, ...], ...],
        environments: tuple[Mapping[str, str], ...],
    ) -> Launch:
        return hydra(
            program=wiring.launcher or self._program() or PROGRAMS[0],
            head=head,
            hosts=hosts,
            placement=placement,
            wiring=wiring,
            pinned=transports(wiring, hosts),
            parts=contexts(hosts, programs, with_devices(environments, wiring.interfaces)),
        )

    def foreground(self, cwd: str, *, by_rank: bool) -> tuple[str, ...]:
        return ("-wdir", cwd, *(("-prepend-rank",) if by_rank else ()))

    def head_environment(self, agent_program: str) -> Mapping[str, str]:
        # Beside the agent is the run's own folder: what a killed mpiexec leaves goes with it.
        return {"HYDRA_LAUNCHER_EXEC": agent_program, "TMPDIR": str(Path(agent_program).parent)}

    def _program(self) -> str | None:
        return next((path for name in PROGRAMS if (path := find(name))), None)


def hydra(
    *,
    program: str,
    head: tuple[str, ...],
    hosts: tuple[Host, ...],
    placement: Placement,
    wiring: MpiWiring,
    pinned: Mapping[str, str],
    parts: tuple[Context, ...],
) -> Launch:
    """Return a launch by MPICH's launcher, Hydra; `pinned` are the variables that keep the MPI from choosing."""
    if wiring.transport not in TRANSPORTS:
        raise RefusedError(f"MPICH has no transport {wiring.transport!r} here: {', '.join(TRANSPORTS)}")
    launcher = (
        program,
        "-launcher", "rsh",
        "-rmk", "user",
        "-iface", wiring.control_interface,
        "-disable-hostname-propagation",
        *_pmi(hosts),
        *_binding(placement),
        "-hosts", ",".join(f"{host.name}:{host.ranks}" for host in hosts),
        "-genvlist", PADDING,
        *(token for name, value in pinned.items() for token in ("-genv", name, value)),
    )  # fmt: skip
    told = tuple(replace(part, options=_options(part)) for part in parts)
    return Launch(head=head, launcher=launcher, hosts=hosts, contexts=told)


def transports(wiring: MpiWiring, hosts: tuple[Host, ...]) -> Mapping[str, str]:
    """Return the variables that pin UCX's transports.

    CMA is left out because it is forbidden in some containers and allowed in others. Without it UCX takes rendezvous
    messages between neighbours for the business of TCP, through `lo`. So TCP is named only where there are several
    hosts, and where neighbours are among their ranks all messages are eager.
    """
    if wiring.transport == "shm" or len(hosts) == 1:
        return {"UCX_TLS": "self,sysv"}
    eager = {"UCX_RNDV_THRESH": "inf"} if any(host.ranks > 1 for host in hosts) else {}
    return {"UCX_TLS": "self,sysv,tcp", **eager}


def _build(program: str) -> str:
    """Return what Hydra says of how it and its MPI were built."""
    return run((program, "-info"), check=False, timeout_s=20).stdout


def with_devices(
    environments: tuple[Mapping[str, str], ...], interfaces: tuple[str, ...]
) -> tuple[Mapping[str, str], ...]:
    """Return the hosts' variables with the device that UCX may use there.

    UCX takes names and no subnets, and pods name theirs differently. Given all names it would pick one by itself.
    """
    if not interfaces:
        return environments
    return tuple(
        {**environment, "UCX_NET_DEVICES": interface}
        for environment, interface in zip(environments, interfaces, strict=True)
    )


def _options(part: Context) -> tuple[str, ...]:
    carried = (("-env", name, value) for name, value in sorted(part.environment.items()))
    return (*(token for variable in carried for token in variable), "-n", str(part.ranks))


def _pmi(hosts: tuple[Host, ...]) -> tuple[str, ...]:
    # A rank talks to its proxy over an open file, which a place that forgets environments (docker exec) closes: there
    # it is told a port of the proxy.
    return ("-pmi-port",) if any(entry.carry for host in hosts for entry in host.enter) else ()


def _binding(placement: Placement) -> tuple[str, ...]:
    return () if placement.binding is Binding.MPI_DEFAULT else ("-bind-to", "none")
