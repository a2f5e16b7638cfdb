"""Run `tare doctor --locality`: check whether two ranks of this site share memory, and if not, why and what helps.

The launcher starts two ranks that report where they run and how fast their messages are
(`tare.cli.doctor.locality_probe`). `diagnose` turns the reports into findings (METHOD.md section 2). Only Python and
the MPI have to be installed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tare.errors import CommandFailed, CommandTimeout, MissingTool, UsageError
from tare.model.text import without_dashes
from tare.run.symptoms import EQUAL_NUMBERS, recognised
from tare.system.packages import install
from tare.system.process import Result, find, run

MARK: Final = "@tare-locality "
LIMIT_S: Final = 60.0
SHARED_MEMORY_US: Final = 3.0
"""Longest half round trip of one byte over shared memory: measured .3 to 1.5 us with it, from 4 us over any network."""
TRIES: Final = 5
"""Attempts to start a job that fails without any output: MPICH's daemon ends with the first rank that gives up, and the
output of that rank is sometimes lost with it (2 of 12 times where /dev/shm was its own)."""
LAUNCHERS: Final = ("mpirun", "mpiexec")
Report = Mapping[str, Any]


def show_locality(command: Sequence[str]) -> int:
    """Print the reports of two ranks and the findings; return 0 if the ranks share memory, else 1."""
    reports = ask(command)
    print(described(reports))
    findings = diagnose(reports)
    for finding in findings:
        print(f"! {finding}")
    if not findings:
        print("the two ranks share memory and have cores of their own: nothing slows them down")
    return 1 if findings else 0


def ask(command: Sequence[str]) -> tuple[Report, Report]:
    """Start two ranks with a launcher's command (default: mpirun) and return their reports, in order of ranks."""
    launcher = tuple(command) or default_launcher()
    source = (Path(__file__).parent / "locality_probe.py").read_text()
    result, ranks = _started(launcher, source)
    for _ in range(TRIES - 1):
        if ranks or result.stdout or result.stderr:
            break
        result, ranks = _started(launcher, source)
    if lone := ranks.get(None):
        what, remedy = alone(lone)
        raise CommandFailed(f"`{shlex.join(launcher)} python3 ...`: {what}", remedy=remedy)
    if len(ranks) != 2:
        output = result.stderr_tail or result.stdout[-600:].strip()
        raise CommandFailed(
            f"`{shlex.join(launcher)} python3 ...` did not start two ranks (status {result.status}): "
            f"{output[-600:] or 'it printed nothing'}",
            remedy=explain(result.stderr + result.stdout)
            or "give the command that starts two ranks: `tare doctor --locality -- mpirun -n 2`",
        )
    return ranks[0], ranks[1]


def alone(report: Report) -> tuple[str, str]:
    """Return what is wrong, and the remedy, where each process is rank 0 of 1, which is common and silent."""
    if report["given"]:
        given, mpi = report["given"][0], report["alone"]
        what = f"although the launcher's variables reach it ({given}): its MPI, {mpi}, is another"
        remedy = "start it with the launcher of that MPI, or with its own inside the container"
    else:
        what = "the launcher's variables (OMPI_*, PMIX_*, PMI_*) do not reach it"
        remedy = (
            "pass them on (docker run -e NAME, podman run --env-host, sudo -E); MPICH also needs its open file PMI_FD, "
            "or -pmi-port; or start the container's own mpirun inside"
        )
    return f"each process is alone (rank 0 of 1): {what}", remedy


def _started(launcher: tuple[str, ...], source: str) -> tuple[Result, dict[int | None, Report]]:
    """Start two ranks and return the launcher's result and the report of each rank; None: of one that is alone."""
    result = run((*launcher, "python3", "-c", source), check=False, timeout_s=LIMIT_S)
    if result.timed_out:
        raise CommandTimeout(
            f"`{shlex.join(launcher)} python3 ...` did not end within {LIMIT_S:g} s",
            remedy="check that both ranks can reach each other: ranks in containers on separate networks wait for ever",
        )
    # Launchers sometimes join the lines of two ranks.
    reports = [json.JSONDecoder().raw_decode(part)[0] for part in result.stdout.split(MARK)[1:]]
    return result, {report.get("rank"): report for report in reports}


def default_launcher() -> tuple[str, ...]:
    """Return the command that starts two ranks with the machine's own MPI."""
    program = next((path for name in LAUNCHERS if (path := find(name))), None)
    if program is None:
        raise MissingTool(
            "mpirun was not found on PATH", remedy=f"load your site's MPI module, or {install('openmpi-bin')}"
        )
    version = run((program, "--version"), check=False, timeout_s=20).stdout
    root = ("--allow-run-as-root",) if os.geteuid() == 0 and "Open" in version else ()
    return (program, *root, "-n", "2")


def described(reports: tuple[Report, Report]) -> str:
    """Return the measurements, one a line."""
    first, second = reports
    times = first["half_round_trip_us"]
    lines = [
        f"MPI: {first['mpi']}",
        f"ranks: {_where(first)}; {_where(second)}",
        f"half round trip: 1 B {times['1']:.2f} us, 64 KiB {times['65536']:.1f} us, 1 MiB {times['1048576']:.0f} us",
    ]
    if first["single_copy"]:
        lines.append(f"one rank may read the other's memory (CMA): {_copying(reports)}")
    return "\n".join(lines)


def diagnose(reports: tuple[Report, Report]) -> tuple[str, ...]:
    """Return the reasons why the two ranks do not share memory at full speed, each with the remedy; pure."""
    first, second = reports
    if first["boot_id"] != second["boot_id"]:
        return ("the ranks are on two machines, which share no memory: start both on one",)
    findings = []
    if len({*first["cpus"], *second["cpus"]}) < 2:
        findings.append(
            f"binding collapse: both ranks may only use core {first['cpus'][0]}; give each container cores of its own "
            "(--cpuset-cpus) or turn the MPI's binding off (--bind-to none)"
        )
    if min(first["neighbours"], second["neighbours"]) < 2:
        findings.append(f"transport loss: the MPI takes the ranks for two hosts; {_why_apart(reports)}")
    elif first["half_round_trip_us"]["1"] > SHARED_MEMORY_US and not findings:
        findings.append(
            f"one byte takes {first['half_round_trip_us']['1']:.1f} us, and shared memory less than "
            f"{SHARED_MEMORY_US:g}: {_why_slow(reports)}"
        )
    elif "yes" not in {first["single_copy"], second["single_copy"]}:
        findings.append(
            f"single copy is forbidden ({_copying(reports)}): {_why_no_copy(reports)}; an MPI that tries it "
            f"stops with `Read -1 ... errno = 1`; remedy: {_no_copy_option(first)}"
        )
    return tuple(findings)


def explain(output: str) -> str:
    """Return the remedy for ranks that did not start, from the output of the MPI; "" if it is unknown."""
    if "as root" in output and "allow-run-as-root" in output:
        return "run `tare doctor --locality -- mpirun --allow-run-as-root -n 2`"
    if "not enough slots" in output:
        return "run `tare doctor --locality -- mpirun --oversubscribe -n 2`"
    # The probe has no other way to crash, and the lines that show where it did may be cut off.
    return recognised(output) or (EQUAL_NUMBERS if "Segmentation fault" in output else "")


def checked(command: Sequence[str]) -> tuple[str, ...]:
    """Return a launcher's command, or raise `UsageError` if its program does not exist."""
    command = without_dashes(list(command)) if command else ()
    if command and find(command[0]) is None:
        raise UsageError(
            f"there is no program {command[0]}",
            remedy="give the command that starts two ranks: `tare doctor --locality -- mpirun -n 2`",
        )
    return tuple(command)


def _where(report: Report) -> str:
    cores = ",".join(map(str, report["cpus"])) if len(report["cpus"]) <= 8 else f"{len(report['cpus'])} cores"
    return f"{report['rank']} on {report['hostname']}, process {report['pid']}, cores {cores}"


def _differ(reports: tuple[Report, Report], namespace: str) -> bool:
    first, second = (report["namespaces"][namespace] for report in reports)
    return bool(first != second)


def _why_apart(reports: tuple[Report, Report]) -> str:
    if _differ(reports, "net"):
        return "each has a network of its own, and so a daemon of its own: put both into one pod under one daemon"
    if _differ(reports, "mnt"):
        return "their containers have a daemon each: start one daemon on the host and let each rank enter its container"
    return "they were started by two daemons: start both with one"


def _why_slow(reports: tuple[Report, Report]) -> str:
    first, second = reports
    if first["shm"] != second["shm"]:
        return "each has a /dev/shm of its own; remedy: --ipc container:NAME (Docker, Podman), or the host's"
    if _differ(reports, "ipc"):
        return "each has IPC of its own, which UCX needs shared; remedy: --ipc container:NAME or --ipc host"
    if _differ(reports, "pid"):
        return "each has process numbers of its own; remedy: --pid container:NAME, or UCX_POSIX_USE_PROC_LINK=n for UCX"
    return (
        "the transport is not shared memory (check btl and UCX_TLS), or the machine is busy (check with `tare doctor`)"
    )


def _why_no_copy(reports: tuple[Report, Report]) -> str:
    if _differ(reports, "user"):
        return "the ranks are in two user namespaces"
    if _differ(reports, "pid"):
        return "the ranks are in two pid namespaces"
    return "seccomp or ptrace rules of the container or the host"


def _copying(reports: tuple[Report, Report]) -> str:
    return " and ".join(dict.fromkeys(str(report["single_copy"]) for report in reports))


def _no_copy_option(report: Report) -> str:
    if re.search(r"MPICH\D*5", report["mpi"]):
        return "MPIR_CVAR_CH4_CMA_ENABLE=0, or --cap-add SYS_PTRACE"
    if "MPICH" in report["mpi"]:
        return "UCX_TLS=^cma, or --cap-add SYS_PTRACE"
    if "v5" in report["mpi"]:
        return "--mca smsc ^cma, or --cap-add SYS_PTRACE"
    return "--mca btl_vader_single_copy_mechanism none, or --cap-add SYS_PTRACE"
