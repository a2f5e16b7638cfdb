"""The kinds of difference between two results, and which metrics each could move. Pure.

The table is knowledge about mechanisms (METHOD.md sections 2 and 3, docs/comparing.md), not a finding: a difference
that could explain a change need not be its cause.
"""

from __future__ import annotations

from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True)
class DifferenceKind:
    """A kind of difference: its facts in words, how it moves figures, and which it could move."""

    facts: str
    how: str
    moves: Moves = Moves.EVERYTHING


KINDS: Final[Mapping[str, DifferenceKind]] = MappingProxyType(
    {
        "kernel": DifferenceKind(
            "release of the kernel", "network stack, scheduler and system calls differ between kernels"
        ),
        "boot": DifferenceKind(
            "the kernel's command line, clock source, clock governor",
            "idle states, isolated cores, timers and clock rates",
        ),
        "cpu": DifferenceKind(
            "model, cores, topology and microcode of the processor",
            "it computes, and it copies and checks every packet",
        ),
        "mitigations": DifferenceKind(
            "mitigations of the processor's vulnerabilities",
            "they make system calls and changes of process slower, of which messages need many",
        ),
        "memory": DifferenceKind(
            "memory of the machine, transparent huge pages",
            "page faults and misses of the TLB; files that stay in the page cache",
            Moves.COMPUTING | Moves.START_UP,
        ),
        "cgroup": DifferenceKind(
            "version of cgroups",
            "limits of CPU time and memory are accounted in another way",
            Moves.COMPUTING | Moves.START_UP,
        ),
        "sysctls": DifferenceKind(
            "kernel settings of the network", "buffers and congestion control limit the bandwidth", Moves.MESSAGES
        ),
        "filter": DifferenceKind(
            "rules of the packet filter, netfilter on bridges",
            "each packet passes the rules and connection tracking",
            Moves.MESSAGES,
        ),
        "link": DifferenceKind(
            "rate, delay, MTU, offloads and other settings of links",
            "the delay adds to each message; rate, MTU and offloads bound the bandwidth",
            Moves.MESSAGES,
        ),
        "network": DifferenceKind(
            "what each network is made of, CNI configurations",
            "another path of packets, and another set-up of interfaces",
            Moves.MESSAGES | Moves.START_UP,
        ),
        "mpi": DifferenceKind(
            "MPI implementations and their versions",
            "other algorithms of collectives, other protocols, another MPI_Init",
        ),
        "transport": DifferenceKind(
            "what the MPI sends messages over",
            "shared memory, TCP and fabrics differ by orders of magnitude",
            Moves.MESSAGES,
        ),
        "libraries": DifferenceKind(
            "operating system, MPI and fabric libraries that ranks had loaded",
            "C library, BLAS and fabric libraries compute, copy and send",
        ),
        "compiler": DifferenceKind(
            "version of the compiler", "tare's kernels and mini-applications were compiled by it", Moves.COMPUTING
        ),
        "image": DifferenceKind(
            "contents of images, images of environments",
            "the image has MPI, C library and BLAS of its own, and its size is part of a start-up",
        ),
        "runtime": DifferenceKind(
            "versions of container runtimes and their daemons",
            "it makes containers, and docker and podman wire their networks too",
            Moves.START_UP | Moves.MESSAGES,
        ),
        "isolation": DifferenceKind(
            "capabilities, seccomp, speculation control and limits of ranks",
            "seccomp filters each system call; limits take CPU time and memory",
        ),
        "nodes": DifferenceKind(
            "names and number of nodes", "other machines, and other ways through the network between them"
        ),
        "cluster": DifferenceKind(
            "the cluster: lab, local, ssh or slurm",
            "a lab's nodes share one machine; those of a cluster have a network between them",
        ),
        "gpu": DifferenceKind(
            "GPUs, and who is given them", "a program that uses them computes on them", Moves.COMPUTING
        ),
        "study": DifferenceKind(
            "definitions of environments, placements, workloads and turns",
            "cells with one name measured different things",
        ),
        "program": DifferenceKind("digests of your own programs", "a program that was compiled again"),
        "tare": DifferenceKind(
            "version of tare, and its compiled kernels", "it may measure in another way: the CHANGELOG says so"
        ),
        "other": DifferenceKind("all else that is recorded", "not known to tare"),
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
