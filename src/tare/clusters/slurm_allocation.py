"""Read the Slurm allocation that this process is in: its nodes, their addresses, and when it ends."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tare.errors import CommandFailed, InfrastructureError, MissingTool
from tare.system.process import find, run

JOB: Final = "SLURM_JOB_ID"
LIMIT_S: Final = 30.0
PAIR: Final = re.compile(r"(\w[\w/:]*)=(\S*)")
UNREADABLE: Final = "`scontrol show {what}` must work where tare runs: load the site's Slurm module, or ask its staff"

NO_SUCH_JOB: Final = f"the job that {JOB} names has ended, or is another cluster's: ask for a new allocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """An allocation of whole nodes or parts of them, in Slurm's order; `ends_unix_s` is None without a time limit.

    `addresses` are those by which Slurm reaches the nodes. `restarts` counts how often the job was requeued.
    """

    job: str
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    ends_unix_s: float | None = None
    restarts: int = 0

    @property
    def label(self) -> str:
        """Return the name of this allocation: a job that was requeued has had several."""
        return f"{self.job}.{self.restarts}" if self.restarts else self.job


def job() -> str:
    """Return the number of the job that this process is in, "" outside of one."""
    return os.environ.get(JOB, "")


def read() -> Allocation | None:
    """Return the allocation that this process is in, or None."""
    if not job():
        return None
    fields = record_of(job(), control("job", job()))
    listed = os.environ.get("SLURM_JOB_NODELIST", "") or fields.get("NodeList", "")
    names = tuple(control("hostnames", listed).split())
    if not names:
        raise InfrastructureError(f"job {job()} has no nodes", remedy="run tare inside an allocation that has begun")
    nodes = {each["NodeName"]: each for each in map(parse, control("node", ",".join(names)).splitlines())}
    return Allocation(
        job=job(),
        names=names,
        addresses=tuple(resolved(nodes.get(name, {}).get("NodeAddr", name)) for name in names),
        ends_unix_s=moment(fields.get("EndTime", "")),
        restarts=int(fields.get("Restarts", "0") or 0),
    )


def cores_per_node(partition: str = "") -> tuple[int, ...]:
    """Return the number of CPUs of each node of a partition ("": the default one), as sinfo shows them."""
    program = find("sinfo")
    if program is None:
        return ()
    chosen = ("--partition", partition) if partition else ()
    shown = run((program, "--noheader", "--Node", *chosen, "--format", "%P %N %c"), timeout_s=LIMIT_S, check=False)
    rows = [line.split() for line in shown.stdout.splitlines()]
    return tuple(int(row[2]) for row in rows if len(row) == 3 and (partition or row[0].endswith("*")))


def listed_pmis() -> frozenset[str]:
    """Return the words of `srun --mpi=list`, among them the kinds of PMI that this Slurm has; none if it fails."""
    shown = run((need("srun"), "--mpi=list"), timeout_s=LIMIT_S, check=False)
    return frozenset(re.split(r"[\s,:]+", shown.stdout + shown.stderr)) if shown.status == 0 else frozenset()


def control(what: str, which: str) -> str:
    """Return what `scontrol show` prints, one line for each object."""
    try:
        return run((need("scontrol"), "--oneliner", "show", what, which), timeout_s=LIMIT_S, what="scontrol").stdout
    except CommandFailed as error:
        reason = (error.stderr_tail.strip().splitlines() or ["no reason was given"])[-1]
        remedy = NO_SUCH_JOB if "Invalid job id" in reason else UNREADABLE.format(what=what)
        raise InfrastructureError(f"Slurm does not describe {what} {which}: {reason}", remedy=remedy) from error


def need(program: str) -> str:
    """Return the path of one of Slurm's programs; raise `MissingTool` if there is none."""
    if path := find(program):
        return path
    raise MissingTool(f"{program} is not in PATH", remedy="load the site's Slurm module, or run tare on a login node")


def record_of(number: str, printed: str) -> Mapping[str, str]:
    """Return the record of one job: the last one of an array has the array's own number, which shows all of them."""
    records = [parse(line) for line in printed.splitlines()]
    return next((each for each in records if each.get("JobId") == number), records[0] if records else {})


def parse(line: str) -> Mapping[str, str]:
    """Return the fields of a line of `scontrol --oneliner`."""
    return dict(PAIR.findall(line))


def moment(text: str) -> float | None:
    """Return one of Slurm's local times as seconds since the epoch; None for "Unknown" and the like."""
    with suppress(ValueError, OverflowError):
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    return None


def resolved(name: str) -> str:
    """Return the IPv4 address of a node's name; the name itself if it has none here."""
    with suppress(OSError):
        return str(socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0])
    return name


def towards(address: str) -> str:
    """Return this machine's own address on the route to another one; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made, suppress(OSError):
        made.connect((address, 9))
        return str(made.getsockname()[0])
    return ""
