"""Find the reason in what a job wrote before it failed: what was said first counts, not what was said last. Pure.

Most of the last messages only say that something else has ended. The program's own words come before those of its
launcher and of libraries, on standard error and, where that has no reason, on standard output. The texts are those of
Open MPI 4 and 5, MPICH's and Intel's Hydra, srun, Docker, Podman, Apptainer and Charliecloud (tests/data/said).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tare.model.text import printable
from tare.workloads.parts import OTHERS, PREFIX

LONGEST: Final = 300
LOOKED_AT: Final = 32 << 10
"""Number of characters searched at each end of an output."""
MOST_STDOUT_LINES: Final = 40
"""Number of lines at the end of standard output that are searched: a program that fails says so at its end."""

RULE: Final = re.compile(r"-{50,}$|^-{50,}", re.MULTILINE)
"""mpirun's rules have 55 or 74 dashes; what a rank writes meanwhile can be on the same line."""
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
PREFIXES: Final = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>: ?|\[prterun-\S+?\]<std(?:out|err)>: ?|\d+: (?=\[))")
"""What launchers put before the lines of ranks."""

NOTICES: Final = re.compile(
    r"""INFO:\s|WARNING|warning\b|\S+:\ warning:|lib\w+:\ (?:Warning|Fatal:\ (?:unable\ to\ open\ RDMA|couldn't\ read))
    |ERROR:\ ld\.so:\ .*\bignored
    |srun:\ cluster\ configuration\ lacks\ support|ERROR\s+:\ Requesting\ capability\ set
    |\[[^\]]+:\d+\]\ (?:\d+\ more\ process|Set\ MCA\ parameter|\*{3}\ (?:Process\ received|End\ of)|Signal\b|Failing\ at
        |\[\s*\d+\]\ |.*ORTE_ERROR_LOG|\S+:\ Warning:)
    |={3,}|-{3,}|=\ {3}|\d+\ total\ process|This\ typically\ refers|Please\ see\ the\ FAQ|Error\ termination
    |\ *\#?\d+\s+(?:0x|\S+\()|\S+\(\+0x[0-9a-f]+\)|.*\bUCX\ +(?:INFO|WARN|DIAG|DEBUG)""",
    re.VERBOSE,
)
"""What lines begin with that explain no failure: notices, traces of a crash, banners."""
OF_LAUNCHERS: Final = re.compile(
    r"""\[[^\]\s]+:\d+(?::\d+)*\s*(?::\d+)*\]|\[(?:proxy|mpiexec|prted|prterun)[^\]]*\]|\*{3}\ |Abort\(-?\d+\)
    |application\ called\ MPI_Abort|YOUR\ APPLICATION\ TERMINATED|(?:\(unknown\)|\w+)\(\d*\)\.*:
    |\[[\d.]+\]\ \[|srun:\ |slurmstepd:\ |slurmstepd-\S+:\ """,
    re.VERBOSE,
)
"""What lines of launchers, MPI libraries and UCX begin with."""
TAG: Final = re.compile(r"^(?:\[[^\]]*\]\s*)*(?:\*{3}\s+)?")
"""Where a library's line was written, or how it is marked."""

OF_MPIRUN: Final = (
    "peer process has unexpectedly disconnected",
    "Primary job  terminated normally",
    "processes exited with non-zero status",
    "the job has been aborted",
)
"""What is within mpirun's rules, also where a rule is missing."""
SAID_OF_ANY_FAILURE: Final = (
    *OF_MPIRUN,
    "An ORTE daemon has unexpectedly failed",
    "one of the processes terminated badly",
    "assert (!closed) failed",
    "reported by process",
    "on communicator",
    "MPI_ERRORS_ARE_FATAL",
    "and potentially your",
    "job will now abort",
)
"""Messages that report only that some rank has ended."""
ABORTED: Final = ("MPI_ABORT was invoked", "application called MPI_Abort")
"""The program ended itself: why, it says elsewhere if at all."""
WARNS: Final = re.compile(r"WARNING|By default, for Open MPI|No OpenFabrics|A system call failed during", re.IGNORECASE)
TELLING: Final = re.compile(
    r"""\b(?:error|fatal|fails?|failed|failure|abort(?:s|ed|ing)?|cannot|can\ not|can't|could\ not|couldn't|unable
    |denied|no\ (?:such|space|child|route)|not\ (?:found|permitted|allowed|supported|implemented|enough|executable)
    |refused|unreachable|timed\ out|unavailable|exception|undefined\ symbol|out\ of\ (?:memory|range|bounds)|invalid
    |illegal|too\ (?:many|long)|exceeded|exhausted|assert\w*|overflow|corrupted|segmentation\ fault|bus\ error
    |received\ signal|core\ dumped|killed|terminated|smashing|missing)\b|\w(?:Error|Exception)\b|errno""",
    re.VERBOSE | re.IGNORECASE,
)
"""What a line has that says why something failed."""
A_FIGURE: Final = re.compile(
    r"""\b(?:errors?|fail(?:ed|ures?))\b[^:=]*[:=]?\s*[-+]?\d*\.?\d+(?:e[-+]?\d+)?\s*%?$
    |\b(?:0|no)\ (?:errors?|failures?|failed)\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""A figure that is only called an error, as the residual of a solver."""
IN_CALL: Final = "*** An error occurred in MPI_"
ERROR_CLASS: Final = "*** MPI_ERR_"
"""Open MPI names the call and, some lines later, the class of the error."""
TRACEBACK: Final = "Traceback (most recent call last):"

OF_SRUN: Final = ("srun: ", "slurmstepd")
ERROR_OF_SRUN: Final = "srun: error: "
"""Its first error is the cause; then it ends the other tasks, and says of each that it was terminated."""
EXIT_CODE_OF_TASK: Final = "Exited with exit code"


@dataclass(slots=True)
class OutputLines:
    """The lines of an output in order of time: the program's own, and the messages of launchers and libraries."""

    own: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def reason_said(stderr: str, stdout: str = "") -> str:
    """Return why a job failed, as its output says; "" if nothing explains it.

    Characters that would control a terminal are escaped.
    """
    said, printed = _read(_ends(stderr)), _read(_printed(stdout))
    messages = [*said.messages, *printed.messages]
    own, message = _first_telling(said.own), _first_message(messages)
    if own or message.startswith(OF_SRUN):
        return _shown(own or message)
    own = _first_telling(printed.own)
    if own or said.own or message:
        return _shown(*([own] if own else said.own[-1:]), message)
    aborted = next((each for each in messages if _is(each, ABORTED)), _of_srun(messages))
    last = f"its standard output ends in: {printed.own[-1]}" if printed.own else ""
    return _shown(last, TAG.sub("", aborted))


def _shown(*parts: str) -> str:
    told = [part for part in parts if part]
    return printable("; ".join(part[: LONGEST // len(told)] for part in told))


def said_meanwhile(stderr: str, stdout: str) -> str:
    """Return the first error that a job named which then did not end, "" if it named none; "" is no failure."""
    said, printed = _read(_ends(stderr)), _read(_printed(stdout))
    return _shown(_first_telling(said.own) or _first_message(said.messages) or _first_telling(printed.own))


def printed_last(stdout: str, *, lines: int = 10) -> str:
    """Return the last lines that a job's programs wrote to standard output, each cut to `LONGEST` characters."""
    return "\n".join(line[:LONGEST] for line in _printed(stdout).splitlines()[-lines:])


def _ends(text: str) -> str:
    """Return an output, or the two ends of a long one."""
    return text if len(text) <= 2 * LOOKED_AT else f"{text[:LOOKED_AT]}\n{text[-LOOKED_AT:]}"


def _printed(stdout: str) -> str:
    """Return the last lines of standard output without the records of tare, of which the first may be cut."""
    end = stdout[-LOOKED_AT:]
    lines = end.splitlines()[len(end) < len(stdout) :]
    return "\n".join([line for line in lines if PREFIX not in line and OTHERS not in line][-MOST_STDOUT_LINES:])


def _read(text: str) -> OutputLines:
    """Return the lines of an output by who said them; notices are left out."""
    said = OutputLines()
    within = False
    for part in RULE.split(COLOUR.sub("", text)):
        within = within or _is(" ".join(part.split()), OF_MPIRUN)  # its rule may have been cut off
        if within:
            said.messages.extend(filter(None, (_message(part),)))
        else:
            _sort(part.splitlines(), said)
        within = not within
    return said


def _sort(lines: Sequence[str], said: OutputLines) -> None:
    """Add lines outside of mpirun's rules to what was said; those of a traceback but its last are left out."""
    traced = False
    for index, raw in enumerate(lines):
        line = PREFIXES.sub("", raw.rstrip())
        if line.strip() == TRACEBACK:
            traced = True
        elif not line.strip() or (traced and line[:1].isspace()) or NOTICES.match(line):
            continue
        elif OF_LAUNCHERS.match(line):
            said.messages.append(_whole(line.strip(), lines[index + 1 :]))
        else:
            traced = False
            said.own.append(_whole(line.strip(), lines[index + 1 :]))


def _whole(line: str, after: Iterable[str]) -> str:
    """Return a line; one that ends in a colon with what is behind it, of an error stack its last entry."""
    following = [each.strip() for each in after if each.strip()]
    if IN_CALL in line:
        named = next((each for each in following if ERROR_CLASS in each), "")
        return f"{line}: {TAG.sub('', named)}" if named else line
    if not line.endswith(":"):
        return line
    if line.endswith("error stack:"):
        entries = [each for each in following if OF_LAUNCHERS.match(each)]
        return f"{line.removesuffix(', error stack:')}: {entries[-1]}" if entries else line.removesuffix(":")
    return f"{line} {following[0]}" if following else line.removesuffix(":")


def _message(part: str) -> str:
    """Return the sentence of a message of mpirun, with the error that it names, or what is behind its colon."""
    paragraphs = [" ".join(each.split()) for each in part.strip().split("\n\n")]
    first = paragraphs[0]
    sentence = first.split(". ", 1)[0].rstrip(".")
    named = dict(pair for line in part.splitlines() if (pair := _field(line)))
    file = next((named[name] for name in ("Application name", "Executable") if name in named), "")
    if error := named.get("Error", ""):
        return f"{sentence.rstrip(':')}: {error}" + (f" ({file})" if file else "")
    if file:
        return f"{sentence.rstrip(':')}: {file}"
    if sentence.endswith(":"):
        return f"{sentence} {paragraphs[1]}" if len(paragraphs) > 1 else sentence.rstrip(":")
    return sentence


def _field(line: str) -> tuple[str, str] | None:
    name, colon, value = line.strip().partition(":")
    return (name, value.strip()) if colon and value.strip() else None


def _first_telling(lines: Sequence[str]) -> str:
    """Return the first of a program's lines that says why it failed, "" if none does."""
    return next((line for line in lines if TELLING.search(line) and not A_FIGURE.search(line)), "")


def _first_message(messages: Sequence[str]) -> str:
    """Return the first message that explains something: not that another rank ended, nor only a warning."""
    telling = [each for each in messages if not _is(each, (*SAID_OF_ANY_FAILURE, *ABORTED)) and not WARNS.match(each)]
    of_srun = _of_srun(messages)
    if EXIT_CODE_OF_TASK in of_srun or not of_srun.startswith(ERROR_OF_SRUN):
        of_srun = ""
    chosen = next((each for each in telling if not each.startswith(OF_SRUN)), of_srun)
    return TAG.sub("", chosen)


def _of_srun(messages: Iterable[str]) -> str:
    """Return srun's first error, or what else it said first."""
    its = [each for each in messages if each.startswith(OF_SRUN)]
    return next((each for each in its if each.startswith(ERROR_OF_SRUN)), next(iter(its), ""))


def _is(message: str, phrases: Iterable[str]) -> bool:
    return any(" ".join(phrase.split()) in message for phrase in phrases)
