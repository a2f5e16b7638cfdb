"""Recognise known ways in which containers break an MPI in the output of a job that failed or hangs. Pure.

Each failure was reproduced and its message recorded: Open MPI 4.1.4 and MPICH 4.0.2 over UCX (METHOD.md section 2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """A message that identifies a cause: `pattern` is searched in the job's output, `cause` includes the remedy.

    It `hangs` if the job then does not end; a job that ends writes the message too, and it means nothing.
    """

    name: str
    pattern: re.Pattern[str]
    cause: str
    hangs: bool = False


def _symptom(name: str, pattern: str, cause: str, *, hangs: bool = False) -> Symptom:
    return Symptom(name=name, pattern=re.compile(pattern, re.IGNORECASE | re.DOTALL), cause=cause, hangs=hangs)


LOOKED_AT: Final = 32 << 10
"""Number of characters searched at the end of the output: a pattern with `.*` that does not match takes quadratic
time."""

EQUAL_NUMBERS: Final = (
    "Open MPI crashes in its shared memory where ranks have equal process numbers, as in containers with a pid "
    "namespace each; remedy: one pid namespace for all (--pid container:NAME)"
)

SYMPTOMS: Final = (
    _symptom("equal process numbers", r"Segmentation fault.*mca_btl_(?:vader|sm)\.so", EQUAL_NUMBERS),
    _symptom(
        "no room",
        r"(?:OPAL|PMIX) ERROR: OUT-OF-RESOURCE",
        "a node has no room for the MPI's files; remedy: make room in its /tmp and /dev/shm",
    ),
    _symptom(
        "no PMI of Slurm",
        r"OMPI was not built with SLURM.s PMI support",
        "the ranks' MPI library was not built for the PMI by which srun starts them; remedy: another pmi "
        "(`srun --mpi=list`), or launch: exec",
    ),
    _symptom(
        "request cut by Slurm",
        r"mpi/pmi2: value not properly terminated in client request",
        "Slurm's pmi2 cuts requests at 1024 bytes, and MPICH 5 over UCX sends longer ones, after which a rank may "
        "never leave MPI_Init; remedy: transport: ofi:tcp, whose requests are short, or the MPI's own launcher "
        "(launch: exec)",
        hangs=True,
    ),
    _symptom(
        "step limit",
        r"Unable to create step for job \d+: Step limit reached",
        "the job has reached the site's limit of steps (MaxStepCount); remedy: resume in another allocation",
    ),
    _symptom(
        "private network",
        r"(?:OPAL|PMIX) ERROR: \S*Unreach\w*|pmix_ifinit: unable to find network|PMIX(?:_\w+)? ERROR(?!: OUT-OF)",
        "the ranks do not reach their daemon (PMIx), as in containers with a network of their own; remedy: the network "
        "and session folder of the daemon in each (--network container:NAME), or a daemon in each container",
    ),
    _symptom(
        "single copy forbidden",
        r"Read -1, expected \d+, errno = 1\b|process_vm_(?:read|write)v\([^)]*\)[^\n]*not permitted",
        "a rank may not read another's memory at one go (CMA): seccomp, ptrace rules or user namespaces forbid it; "
        "remedy: --mca btl_vader_single_copy_mechanism none (Open MPI 4), --mca smsc ^cma (Open MPI 5), UCX_TLS=^cma "
        "(MPICH), or --cap-add SYS_PTRACE",
    ),
    _symptom(
        "single copy into another pid namespace",
        r"Read -1, expected \d+, errno = (?:3|14)\b",
        "a rank looked for another's memory (CMA) under a process number that is another's in its pid namespace; "
        "remedy: one pid namespace for all (--pid container:NAME), or the single copy switched off",
    ),
    _symptom(
        "single copy across user namespaces",
        r"vader BTL is aborting the MPI job",
        "CMA was asked for, and ranks in user namespaces of their own may not use it; remedy: --mca "
        "btl_vader_single_copy_mechanism none, or one user namespace for all",
    ),
    _symptom(
        "user namespaces",
        r"initial_address_exchange[^\n]*Shared memory error|"
        r"mm_posix\.c[^\n]*open\(file_name=/proc/[^\n]*Permission denied",
        "UCX reaches no shared memory of a rank in another user namespace; remedy: one user namespace for all, or "
        "UCX_POSIX_USE_PROC_LINK=n",
    ),
    _symptom(
        "private /dev/shm",
        r"MPIDU_Init_shm_init[^\n]*unable to allocate shared memory",
        "the ranks do not see one /dev/shm; remedy: --ipc container:NAME (Docker, Podman), or the host's /dev/shm",
    ),
    _symptom(
        "full /dev/shm",
        r"No space left on device[^\n]*(?:/dev/shm|shared memory)|/dev/shm[^\n]*No space left on device",
        "/dev/shm is full, which Docker makes 64 MB small; remedy: --shm-size 1g, or the host's (--ipc host)",
    ),
    _symptom(
        "full shared memory of the container",
        r"not enough space for (?:/dev/shm|\S*shared.memory)|not enough space[^\n]*shared.memory backing file",
        "its shared memory is larger than its /dev/shm, which is as large as its node's or the environment's shm_size; "
        "remedy: a larger shm_size, fewer ranks a node, or smaller windows (`df /dev/shm` on the node)",
    ),
    _symptom(
        "missing Python module",
        r"(?:ModuleNotFoundError|ImportError): No module named",
        "the Python that ran has no such module; remedy: install it where it ran (in an image by `tare image add "
        "NAME python3-MODULE`), or start the Python of a virtual environment that has it",
    ),
    _symptom(
        "another MPI",
        r"tare-wall: the program has another MPI",
        "it brings an MPI of its own, which is not of the launcher's kind, so each rank is alone; remedy: choose that "
        "MPI (--mpi mpich or --mpi openmpi; mpi: in a study)",
    ),
    _symptom(
        "spawned processes",
        r"tare-wall: started by MPI_Comm_spawn",
        "it starts processes itself (MPI_Comm_spawn), and Open MPI then forwards their output and its own twice, or "
        "not at all, so that tare cannot measure it; remedy: start it by `tare launch`",
    ),
    _symptom(
        "spawning",
        r"MPI_ERR_SPAWN|Comm_spawn\S* failed|Error in spawn call|LAUNCHER JOB OBJECT NOT FOUND",
        "it starts processes itself (MPI_Comm_spawn), which works under Open MPI 4 alone; remedy: `tare launch` with "
        "--mpi openmpi",
    ),
    _symptom(
        "limit of processes",
        r"(?:thread|fork|clone|libgomp|OpenBLAS|vfork)[^\n]*(?:Resource temporarily unavailable|EAGAIN)|"
        r"(?:Resource temporarily unavailable)[^\n]*(?:thread|fork)",
        "no more threads or processes could be started: perhaps a limit of its cgroup (pids.max), of its user (ulimit "
        "-u) or of the machine (kernel.threads-max) is reached; remedy: compare them with those of the baseline "
        "(`tare explain` lists what differs), and fewer threads",
    ),
    _symptom(
        "full file system",
        r"(?m:^(?![^\n]*(?:/dev/shm|shared memory))[^\n]*(?:No space left on device|Disk quota exceeded))",
        "a file system is full, perhaps that of the program's files, or /tmp or /dev/shm of a node, in which MPIs have "
        "theirs; remedy: make room there (df)",
    ),
    _symptom(
        "bus error",
        r"Bus error",
        "a page of a mapped file could not be had (signal 7): perhaps the file is shorter than its mapping, huge pages "
        "are used up, or /dev/shm is full; remedy: look at the file, at HugePages_Free in /proc/meminfo, and at "
        "`df /dev/shm` there",
    ),
)


def recognised(words: str, *, hung: bool = False) -> str:
    """Return the cause and remedy of the first symptom found in the output of a job that failed, or hung, or ""."""
    end = words[-LOOKED_AT:]
    return next((each.cause for each in SYMPTOMS if each.hangs == hung and each.pattern.search(end)), "")
