"""Explain a failed job from its output: its last words, and known ways in which containers break an MPI. Pure.

Each failure was reproduced and its message recorded: Open MPI 4.1.4 and MPICH 4.0.2 over UCX (METHOD.md section 2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tare.model.text import printable


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
        r"(?:OPAL|PMIX) ERROR: OUT-OF-RESOURCE|No space left on device|Disk quota exceeded",
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
        r"Bus error|No space left on device[^\n]*(?:/dev/shm|shared memory)|/dev/shm[^\n]*No space left on device",
        "/dev/shm is full, which Docker makes 64 MB small; remedy: --shm-size 1g, or the host's (--ipc host)",
    ),
)


def recognised(words: str, *, hung: bool = False) -> str:
    """Return the cause and remedy of the first symptom found in the output of a job that failed, or hung, or ""."""
    end = words[-LOOKED_AT:]
    return next((each.cause for each in SYMPTOMS if each.hangs == hung and each.pattern.search(end)), "")


LONGEST: Final = 300
RULE: Final = re.compile(r"-{50,}$|^-{50,}", re.MULTILINE)
"""mpirun's rules have 55 or 74 dashes; what a rank writes meanwhile can stand on the same line."""
REMARKS: Final = ("[", "INFO: ", "srun: cluster configuration lacks support for cpu binding")
"""What lines begin with that explain no failure: Open MPI's trace of a crash, Apptainer's and srun's notices."""
SAID_OF_ANY_FAILURE: Final = (
    "peer process has unexpectedly disconnected",
    "Primary job  terminated normally",
    "processes exited with non-zero status",
)
"""Messages of mpirun that report only that some rank has ended."""
OF_SRUN: Final = ("srun: ", "slurmstepd: ")
ERROR_OF_SRUN: Final = "srun: error: "
"""Its first error is the cause; then it ends the other tasks, and says of each that it was terminated."""
EXIT_CODE_OF_TASK: Final = "Exited with exit code"


def last_words(stderr: str) -> str:
    """Return why a job failed: its own last line, else mpirun's most specific message; "" if nothing explains it.

    srun's first error comes before that line, unless it only reports an exit code. Characters that would control a
    terminal are escaped.
    """
    outside, inside = _apart(stderr)
    own = [line.strip() for part in outside for line in part.splitlines() if line.strip()]
    own = [line for line in own if not line.startswith(REMARKS)]
    if own:
        return printable(_most_telling(own)[:LONGEST])
    messages = [" ".join(part.strip().split("\n\n", 1)[0].split()) for part in inside]
    telling = [message for message in messages if message and not _is_general(message)]
    return printable(telling[-1].split(". ", 1)[0].rstrip(".")[:LONGEST]) if telling else ""


def _apart(stderr: str) -> tuple[list[str], list[str]]:
    """Return a program's output, and mpirun's messages.

    mpirun encloses each message in two rules, so they alternate. Where a rule is missing, as at the beginning of a
    tail, a message is known by what it says.
    """
    outside: list[str] = []
    inside: list[str] = []
    within = False
    for part in RULE.split(stderr):
        within = within or _is_general(" ".join(part.split()))
        (inside if within else outside).append(part)
        within = not within
    return outside, inside


def _most_telling(lines: Sequence[str]) -> str:
    programs = [line for line in lines if not line.startswith(OF_SRUN)]
    first = next((line for line in lines if line.startswith(ERROR_OF_SRUN)), lines[-1])
    if programs and (EXIT_CODE_OF_TASK in first or not first.startswith(ERROR_OF_SRUN)):
        return programs[-1]
    return first


def _is_general(message: str) -> bool:
    return any(" ".join(phrase.split()) in message for phrase in SAID_OF_ANY_FAILURE)
