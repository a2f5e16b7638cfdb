"""`tare doctor --locality`: do two ranks of this site share memory, and if not, why, and what helps.

The launcher starts two ranks that tell where they are and how fast they answer each other (`tare.cli.locality_probe`);
`diagnose` makes findings of what they told (METHOD.md section 2). Nothing but Python and the MPI has to be there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tare.cli.lab_commands import without_dashes
from tare.errors import CommandFailed, CommandTimeout, MissingTool, UsageError
from tare.host.process import Result, find, run
from tare.run.symptoms import EQUAL_NUMBERS, recognised

MARK: Final = "@tare-locality "
LIMIT_S: Final = 60.0
SHARED_MEMORY_US: Final = 3.0
"""Half round trip of one byte up to which ranks share memory: seen .3 to 1.5 us with it, from 4 us over any network."""
TRIES: Final = 5
"""How often a job is started that ends badly without a word: MPICH's daemon ends with the first rank that gives up, and
what that rank said is lost with it now and then (2 of 12 times where /dev/shm was its own)."""
LAUNCHERS: Final = ("mpirun", "mpiexec")
Report = Mapping[str, Any]


def show_locality(command: Sequence[str]) -> int:
    """Print what two ranks told and what follows; return 0 where they share memory, else 1."""
    reports = ask(command)
    print(described(reports))
    findings = diagnose(reports)
    for finding in findings:
        print(f"! {finding}")
    if not findings:
        print("the two ranks share memory, on cores of their own: nothing is lost here")
    return 1 if findings else 0


def ask(command: Sequence[str]) -> tuple[Report, Report]:
    """Start two ranks with a launcher's command (default: mpirun) and return what they told, in order of ranks."""
    launcher = tuple(command) or default_launcher()
    source = (Path(__file__).parent / "locality_probe.py").read_text()
    result, ranks = _started(launcher, source)
    for _ in range(TRIES - 1):
        if ranks or result.stdout or result.stderr:
            break
        result, ranks = _started(launcher, source)
    if len(ranks) != 2:
        words = result.stderr_tail or result.stdout[-600:].strip()
        raise CommandFailed(
            f"`{shlex.join(launcher)} python3 ...` did not bring two ranks up (status {result.status}): "
            f"{words[-600:] or 'it said nothing'}",
            remedy=explain(result.stderr + result.stdout)
            or "give the command that starts two ranks: tare doctor --locality -- mpirun -n 2",
        )
    return ranks[0], ranks[1]


def _started(launcher: tuple[str, ...], source: str) -> tuple[Result, dict[int, Report]]:
    """Start two ranks and return how that ended and what each told."""
    result = run((*launcher, "python3", "-c", source), check=False, timeout_s=LIMIT_S)
    if result.timed_out:
        raise CommandTimeout(
            f"`{shlex.join(launcher)} python3 ...` did not end within {LIMIT_S:g} s",
            remedy="ranks that cannot find each other wait for ever: look whether the containers see one network",
        )
    # Launchers put lines of two ranks together now and then.
    told = [json.JSONDecoder().raw_decode(part)[0] for part in result.stdout.split(MARK)[1:]]
    return result, {report["rank"]: report for report in told}


def default_launcher() -> tuple[str, ...]:
    """Return the command that starts two ranks with the machine's own MPI."""
    program = next((path for name in LAUNCHERS if (path := find(name))), None)
    if program is None:
        raise MissingTool(
            "there is no mpirun here", remedy="load your site's MPI module, or apt-get install openmpi-bin"
        )
    version = run((program, "--version"), check=False, timeout_s=20).stdout
    root = ("--allow-run-as-root",) if os.geteuid() == 0 and "Open" in version else ()
    return (program, *root, "-n", "2")


def described(reports: tuple[Report, Report]) -> str:
    """Return what was measured, one line each."""
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
    """Return what keeps the two ranks from sharing memory at full speed, each with the remedy; pure."""
    first, second = reports
    if first["boot_id"] != second["boot_id"]:
        return ("the ranks are on two machines, which share no memory: start both on one",)
    found = []
    if len({*first["cpus"], *second["cpus"]}) < 2:
        found.append(
            f"binding collapse: both ranks may only use core {first['cpus'][0]}; give each container cores of its own "
            "(--cpuset-cpus) or let the MPI not bind (--bind-to none)"
        )
    if min(first["neighbours"], second["neighbours"]) < 2:
        found.append(f"transport loss: the MPI takes the ranks for two hosts; {_why_apart(reports)}")
    elif first["half_round_trip_us"]["1"] > SHARED_MEMORY_US and not found:
        found.append(
            f"one byte takes {first['half_round_trip_us']['1']:.1f} us, and shared memory less than "
            f"{SHARED_MEMORY_US:g}: {_why_slow(reports)}"
        )
    elif "yes" not in {first["single_copy"], second["single_copy"]}:
        found.append(
            f"single copy is forbidden ({_copying(reports)}): {_why_no_copy(reports)}; an MPI that tries it "
            f"stops with `Read -1 ... errno = 1`; remedy: {_no_copy_option(first)}"
        )
    return tuple(found)


def explain(words: str) -> str:
    """Return what helps where ranks did not come up, from what the MPI said; "" if it is not known."""
    if "as root" in words and "allow-run-as-root" in words:
        return "tare doctor --locality -- mpirun --allow-run-as-root -n 2"
    if "not enough slots" in words:
        return "tare doctor --locality -- mpirun --oversubscribe -n 2"
    # The probe has no other way to crash, and what says where it did may be cut off.
    return recognised(words) or (EQUAL_NUMBERS if "Segmentation fault" in words else "")


def checked(command: Sequence[str]) -> tuple[str, ...]:
    """Return a launcher's command, or raise `UsageError` where there is no such program."""
    command = without_dashes(list(command)) if command else ()
    if command and find(command[0]) is None:
        raise UsageError(f"{command[0]} is not there", remedy="give the command that starts two ranks: -- mpirun -n 2")
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
    return "they were started by two daemons: start both by one"


def _why_slow(reports: tuple[Report, Report]) -> str:
    first, second = reports
    if first["shm"] != second["shm"]:
        return "each has a /dev/shm of its own; remedy: --ipc container:NAME (Docker, Podman), or the host's"
    if _differ(reports, "ipc"):
        return "each has IPC of its own, which UCX needs shared; remedy: --ipc container:NAME or --ipc host"
    if _differ(reports, "pid"):
        return "each has process numbers of its own; remedy: --pid container:NAME, or UCX_POSIX_USE_PROC_LINK=n for UCX"
    return "the transport is not shared memory (look at btl and UCX_TLS), or the machine is busy (tare doctor)"


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
