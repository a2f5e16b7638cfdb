"""Run `tare check`: read the launch line, run it with the probe in front of the program, print what was found."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from tare.analysis.check.changes import LAUNCHERS, with_lines
from tare.analysis.check.facts import JobFacts, MpiAnswer, PairTimes, read_ranks
from tare.analysis.check.finding import CheckFinding, Severity
from tare.analysis.check.judge import exit_code, judge, unknown
from tare.cli.check.options import CheckOptions
from tare.cli.output import print_json, say
from tare.errors import EXIT_DONE, UsageError
from tare.images.check_probe import ensure_probe
from tare.model.text import counted, printable, three_digits, without_dashes
from tare.mpi.lines.line import LaunchLine, read_line
from tare.mpi.lines.words import LayerRole
from tare.system import process
from tare.workloads.failure_reasons import COLOUR, reason_said

SHARE: Final = 3
"""The part of the whole time that a rank has: one third, so that what hangs is told by the ranks themselves."""
MOST_LINES: Final = 24
NEAR: Final = "of a node"
TINY_US: Final = 1e-3
MEMORY_US: Final = 50.0
"""No way through memory takes so long: ranks that wait for a core do."""
SIGNS: Final = {Severity.BROKEN: "✗", Severity.SLOW: "▲", Severity.RISK: "!"}
HOSTS: Final = re.compile(r"[^,\s:]+")
HOST_OPTIONS: Final = ("-H", "-host", "--host", "-hosts", "--hosts", "-w", "--nodelist")


def run_check(asked: CheckOptions) -> int:
    """Check a launch line and print what was found; return 0 if it is right, 1 if not, 3 if that cannot be told."""
    line = read_line(without_dashes(asked.command))
    if (inside := line.container) is not None and inside.syntax.role is LayerRole.INSIDE:
        raise UsageError(
            f"{inside.name} enters a container that runs already, where tare's probe is not",
            remedy=f"check the line that starts it ({inside.name} run ...), or run tare check inside of it",
        )
    probe = ensure_probe(progress=say)
    limit_s = max(1, int(asked.time_limit / SHARE))
    with _place(probe, asked.folder, stays=asked.show) as place:
        argv = line.before_program(place, str(limit_s))
        if asked.show:
            print(shlex.join(argv))
            return EXIT_DONE
        job = _ask(line, argv, asked.time_limit)
    findings, hidden = judge(job), unknown(job)
    there = {name for names in LAUNCHERS.values() for name in names if process.find(name)}
    findings = with_lines(findings, line, job, there)
    code = exit_code(findings, hidden)
    if asked.as_json:
        print_json({"exit_code": code, "ranks": len(job.ranks), "findings": [_data(each) for each in findings]})
    else:
        print(printable("\n".join(_text(job, findings, hidden)[:MOST_LINES]), lines=True))
    return code


@contextmanager
def _place(probe: Path, folder: str, *, stays: bool) -> Iterator[Path]:
    """Give the probe where every node sees it: in the cache of the home, as a rule, or a copy below a folder.

    The copy is in a new folder, so that nobody else has put another program there; it is removed unless it `stays`.
    """
    if not folder:
        yield probe
        return
    if not Path(folder).is_dir():
        raise UsageError(f"there is no folder {folder}", remedy="name a folder that every node sees")
    place = Path(tempfile.mkdtemp(prefix="tare-check-", dir=Path(folder).absolute()))
    try:
        place.chmod(0o755)
        yield Path(shutil.copy2(probe, place))
    finally:
        if not stays:
            shutil.rmtree(place, ignore_errors=True)


def _ask(line: LaunchLine, argv: Sequence[str], time_limit_s: float) -> JobFacts:
    result = process.run(argv, check=False, timeout_s=time_limit_s, env=dict(os.environ), what="the check")
    ranks, rest = read_ranks(result.stdout)
    ranks = tuple(replace(rank, mpi=_with_reason(rank.mpi)) for rank in ranks)
    launcher, container = line.launcher, line.container
    return JobFacts(
        launcher=launcher.name if launcher is not None else "",
        container=container.name if container is not None else "",
        ranks=ranks,
        reason=reason_said(result.stderr, rest) or COLOUR.sub("", result.stderr).strip().partition("\n")[0],
        status=result.status,
        is_late=result.timed_out,
        hosts=wanted_hosts(line),
    )


def _with_reason(answer: MpiAnswer | None) -> MpiAnswer | None:
    """Return the answer of an MPI with the reason that it printed, if it gave none itself."""
    return answer if answer is None or answer.error else replace(answer, error=reason_said(answer.text))


def wanted_hosts(line: LaunchLine) -> int | None:
    """Return how many nodes a launch line or the job around it asks for, None if neither says it."""
    words = line.words[: line.program]
    for option, value in pairwise(words):
        if option in HOST_OPTIONS:
            return len(set(HOSTS.findall(re.sub(r":\d+", "", value))))
        if line.launcher is not None and line.launcher.name == "srun" and option in {"-N", "--nodes"}:
            return int(value) if value.isdecimal() else None
    for word in words:
        if (found := re.fullmatch(r"(?:-N|--nodes=)(\d+)", word)) and line.launcher is not None:
            return int(found[1]) if line.launcher.name in {"srun", "flux"} else None
    given = os.environ.get("SLURM_JOB_NUM_NODES", "")
    return int(given) if given.isdecimal() else None


def _data(finding: CheckFinding) -> dict[str, object]:
    return {**asdict(finding), "severity": finding.severity.name.lower()}


def _text(job: JobFacts, findings: Sequence[CheckFinding], hidden: CheckFinding | None) -> list[str]:
    there = f"{counted(len(job.ranks), 'rank')} on {counted(len(job.machines), 'node')}"
    if not findings and hidden is None:
        return [f"✓ This job is set up right: {there}, {_library(job)}.", *_times(job)]
    lines = list[str]()
    for each in findings:
        lines += [f"{SIGNS[each.severity]} {each.seen}.", f"  change: {each.remedy}"]
    if changed := next((each.line for each in reversed(findings) if each.line), ""):
        several = sum(bool(each.line) for each in findings) > 1
        lines.append(f"  line{' with these changes' if several else ''}: {changed}")
    if hidden is not None:
        lines += [f"? {hidden.seen}.", f"  to do: {hidden.remedy}"]
    return [*lines, *([f"{there}, {_library(job)}."] if job.ranks else [])]


def _library(job: JobFacts) -> str:
    titles = (rank.mpi.library.partition(",")[0] for rank in job.ranks if rank.mpi is not None and rank.mpi.library)
    found = {" ".join(title.replace("Version:", "").split()) for title in titles}
    return " and ".join(sorted(found)) or "MPI not known"


def _times(job: JobFacts) -> list[str]:
    near = next((rank.mpi.near for rank in job.ranks if rank.mpi is not None and rank.mpi.near is not None), None)
    far = next((rank.mpi.far for rank in job.ranks if rank.mpi is not None and rank.mpi.far is not None), None)
    return [_pair_text(where, pair) for where, pair in ((NEAR, near), ("of two nodes", far)) if pair is not None]


def _pair_text(where: str, pair: PairTimes) -> str:
    rate = pair.large_bytes / max(pair.large_us, TINY_US) / 1e3
    text = f"  two ranks {where}: {three_digits(pair.small_us)} us for 8 B, {three_digits(rate)} GB/s"
    if pair.carriers:
        return f"{text}, through {pair.carriers[0]}"
    slow = where == NEAR and pair.small_us > MEMORY_US
    return f"{text}; that is slow: something else runs on their cores" if slow else text
