"""The kinds of difference between two results, and which metrics each could move. Pure.

The table is knowledge about mechanisms (METHOD.md sections 2 and 3, docs/comparing.md), not a finding: a difference
that could explain a change need not be its cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from types import MappingProxyType
from typing import Final

from tare.model import Workload
from tare.workloads.programs import PROGRAMS

ALL: Final = "all"
"""What `--expect` takes for every kind."""


class Moves(Flag):
    """What a metric is made of, and what a difference could move."""

    NOTHING = 0
    MESSAGES = auto()
    COMPUTING = auto()
    START_UP = auto()
    EVERYTHING = MESSAGES | COMPUTING | START_UP


WORDS: Final[Mapping[Moves, str]] = MappingProxyType(
    {Moves.MESSAGES: "messages", Moves.COMPUTING: "computing", Moves.START_UP: "start-up"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of difference: its facts in words, and what it could move and how."""

    facts: str
    moves: Moves
    how: str


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "kernel": Kind(
            facts="release of the kernel",
            moves=Moves.EVERYTHING,
            how="network stack, scheduler and system calls differ between kernels",
        ),
        "boot": Kind(
            facts="the kernel's command line, clock source, clock governor",
            moves=Moves.EVERYTHING,
            how="idle states, isolated cores, timers and clock rates",
        ),
        "cpu": Kind(
            facts="model, cores, topology and microcode of the processor",
            moves=Moves.EVERYTHING,
            how="it computes, and it copies and checks every packet",
        ),
        "mitigations": Kind(
            facts="mitigations of the processor's vulnerabilities",
            moves=Moves.EVERYTHING,
            how="they make system calls and changes of process slower, of which messages need many",
        ),
        "memory": Kind(
            facts="memory of the machine, transparent huge pages",
            moves=Moves.COMPUTING | Moves.START_UP,
            how="page faults and misses of the TLB; files that stay in the page cache",
        ),
        "cgroup": Kind(
            facts="version of cgroups",
            moves=Moves.COMPUTING | Moves.START_UP,
            how="limits of CPU time and memory are accounted in another way",
        ),
        "sysctls": Kind(
            facts="kernel settings of the network",
            moves=Moves.MESSAGES,
            how="buffers and congestion control limit the bandwidth",
        ),
        "filter": Kind(
            facts="rules of the packet filter, netfilter on bridges",
            moves=Moves.MESSAGES,
            how="each packet passes the rules and connection tracking",
        ),
        "link": Kind(
            facts="rate, delay, MTU, offloads and other settings of links",
            moves=Moves.MESSAGES,
            how="the delay adds to each message; rate, MTU and offloads bound the bandwidth",
        ),
        "network": Kind(
            facts="what each network is made of, CNI configurations",
            moves=Moves.MESSAGES | Moves.START_UP,
            how="another path of packets, and another set-up of interfaces",
        ),
        "mpi": Kind(
            facts="MPI implementations and their versions",
            moves=Moves.EVERYTHING,
            how="other algorithms of collectives, other protocols, another MPI_Init",
        ),
        "transport": Kind(
            facts="what the MPI sends messages over",
            moves=Moves.MESSAGES,
            how="shared memory, TCP and fabrics differ by orders of magnitude",
        ),
        "libraries": Kind(
            facts="operating system, MPI and fabric libraries that ranks had loaded",
            moves=Moves.EVERYTHING,
            how="C library, BLAS and fabric libraries compute, copy and send",
        ),
        "compiler": Kind(
            facts="version of the compiler",
            moves=Moves.COMPUTING,
            how="tare's kernels and mini-applications were compiled by it",
        ),
        "image": Kind(
            facts="contents of images, images of environments",
            moves=Moves.EVERYTHING,
            how="the image has MPI, C library and BLAS of its own, and its size is part of a start-up",
        ),
        "runtime": Kind(
            facts="versions of container runtimes and their daemons",
            moves=Moves.START_UP | Moves.MESSAGES,
            how="it makes containers, and docker and podman wire their networks too",
        ),
        "isolation": Kind(
            facts="capabilities, seccomp, speculation control and limits of ranks",
            moves=Moves.EVERYTHING,
            how="seccomp filters each system call; limits take CPU time and memory",
        ),
        "nodes": Kind(
            facts="names and number of nodes",
            moves=Moves.EVERYTHING,
            how="other machines, and other ways through the network between them",
        ),
        "cluster": Kind(
            facts="the cluster: lab, local, ssh or slurm",
            moves=Moves.EVERYTHING,
            how="a lab's nodes share one machine; those of a cluster have a network between them",
        ),
        "gpu": Kind(
            facts="GPUs, and who is given them", moves=Moves.COMPUTING, how="a program that uses them computes on them"
        ),
        "study": Kind(
            facts="definitions of environments, placements, workloads and turns",
            moves=Moves.EVERYTHING,
            how="cells with one name measured different things",
        ),
        "program": Kind(
            facts="digests of your own programs", moves=Moves.EVERYTHING, how="a program that was compiled again"
        ),
        "tare": Kind(
            facts="version of tare, and its compiled kernels",
            moves=Moves.EVERYTHING,
            how="it may measure in another way: the CHANGELOG says so",
        ),
        "other": Kind(facts="all else that is recorded", moves=Moves.EVERYTHING, how="not known to tare"),
    }
)
"""By the name that `--expect` takes."""

_OF_SOCKETS: Final = "net-"
"""Mini-applications whose names begin so only send and receive."""


def measured(workload: Workload) -> Moves:
    """Return what the metrics of a workload are made of."""
    if workload.startup is not None or workload.commands:
        return Moves.START_UP
    if workload.kernels:
        halo = any(kernel.kernel == "halo" for kernel in workload.kernels)
        return Moves.MESSAGES | Moves.COMPUTING if halo else Moves.MESSAGES
    only_sends = workload.miniapp.startswith(_OF_SOCKETS) or _is_network_program(workload.program)
    return Moves.MESSAGES if only_sends else Moves.MESSAGES | Moves.COMPUTING


def _is_network_program(name: str) -> bool:
    adapter = PROGRAMS.get(name)
    return adapter is not None and type(adapter).__module__.rpartition(".")[2] in {"osu", "imb", "iperf3"}


def in_words(moves: Moves) -> str:
    """Return what is moved, as `messages and start-up`."""
    if moves == Moves.EVERYTHING:
        return "everything"
    parts = [word for flag, word in WORDS.items() if flag & moves]
    return " and ".join(parts) or "nothing"


def could_move(kinds: Iterable[str], moves: Moves) -> tuple[str, ...]:
    """Return those of the kinds that could move a metric that is made of `moves`."""
    return tuple(kind for kind in kinds if KINDS[kind].moves & moves)
