"""Run a trial's launcher inside the launcher's pod of an MPIJob, and tell what the workers count before and after.

The operator numbers workers as it likes. So a script asks each worker for the boot ID of its node, and gives it the
name that the placement has for it. By the same connections it reads what each worker's network interfaces have carried
and how much CPU time its container has used. What it tells are lines that begin with `MARK`. Both sides are here: the
script, and what reads its lines. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tare.clusters.pods.mpi_jobs.manifest import HOST_FILE
from tare.system.counters import interfaces, tcp
from tare.system.counters.interfaces import Counts, counts_of

MARK: Final = "tare-mpi-job:"
FOLDER: Final = "/tmp/tare"
AGENT: Final = f"{FOLDER}/agent"
"""What an MPI calls as rsh: it knows the workers by the names of the placement."""
BEFORE: Final = "before"
AFTER: Final = "after"
UNSET: Final = (
    "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_plm_rsh_args", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "I_MPI_PERHOST",
    "HYDRA_HOST_FILE", "HYDRA_LAUNCH_EXTRA_ARGS",
)  # fmt: skip
"""What the operator sets for MPIs: a trial's launcher gets the same settings as with every other way of launching."""
SCRIPT: Final = f"""\
mark=$0 wanted=$1
shift
unset {" ".join(UNSET)}
fail() {{
  printf '%s error %s\\n%s status 1\\n' "$mark" "$1" "$mark"
  exit 1
}}
tell() {{
  while IFS= read -r line; do printf '%s %s %s\\n' "$mark" "$1" "$line"; done
}}
look() {{
  {FOLDER}/ssh "$1" 'cat /proc/sys/kernel/random/boot_id /proc/net/dev /proc/net/snmp /proc/net/netstat
    cat /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu*/cpuacct.usage 2>/dev/null; :' </dev/null
}}
mkdir -p {FOLDER}/hosts && cat > {AGENT} <<'END' || fail 'nothing can be written to {FOLDER}'
#!/bin/sh
while [ $# -gt 1 ] && [ ! -f "{FOLDER}/hosts/$1" ]; do shift; done
[ $# -gt 1 ] || {{ echo 'tare: the launcher asks for an unknown host' >&2; exit 125; }}
read -r host < "{FOLDER}/hosts/$1"
shift
exec {FOLDER}/ssh "$host" "$@"
END
chmod 755 {AGENT}
for worker in $(while read -r name slots; do echo "${{name%:*}}"; done < {HOST_FILE}); do
  told=$(look "$worker") || fail "its launcher cannot reach $worker by ssh"
  for pair in $wanted; do
    case $told in "${{pair#*=}}"*) ;; *) continue ;; esac
    printf '%s\\n' "$worker" > "{FOLDER}/hosts/${{pair%%=*}}"
    printf '%s\\n' "$told" | tell "{BEFORE} ${{pair%%=*}}"
  done
done
for pair in $wanted; do
  [ -f "{FOLDER}/hosts/${{pair%%=*}}" ] || fail "no worker is on the node of ${{pair%%=*}}"
done
read -r began rest < /proc/uptime
"$@" 2> {FOLDER}/errors
status=$?
read -r ended rest < /proc/uptime
printf '\n%s ran %s %s\n' "$mark" "$began" "$ended"
for pair in $wanted; do
  read -r worker < "{FOLDER}/hosts/${{pair%%=*}}"
  look "$worker" | tell "{AFTER} ${{pair%%=*}}"
done
tell error < {FOLDER}/errors
printf '%s status %s\\n' "$mark" "$status"
exit $status
"""
RAN: Final = re.compile(r"(\d+(?:\.\d+)?) (\d+(?:\.\d+)?)")
PROTOCOL: Final = re.compile(r"[A-Z]\w*: ")
"""What begins the lines of /proc/net/snmp and netstat."""
CPU_TIMES: Final = (
    (re.compile(r"^usage_usec (\d+)$", re.MULTILINE), 1e-6),
    (re.compile(r"^(\d+)$", re.MULTILINE), 1e-9),
)
"""The CPU time of a worker's container in its cgroup's files, and the unit: of version 2, and of version 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    """What a worker counted: bytes and packets of each interface, counters of protocols, CPU time of its container.

    Counters have their nstat names; a CPU time of 0 is not known.
    """

    interfaces: Mapping[str, Counts] = field(default_factory=dict)
    protocols: Mapping[str, int] = field(default_factory=dict)
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherOutput:
    """A launcher's output, taken apart: the program's own, its errors, its exit status, what each host counted.

    `mpirun_s` is how long the MPI's own launcher ran, 0 if that is not known.

    `status` is None if the script did not get to its end. `counted` is the growth from before the MPI's launcher began
    until after it had ended.
    """

    output: str
    errors: str
    status: int | None
    counted: Mapping[str, WorkerCounts]
    mpirun_s: float = 0.0


def command(hosts: Mapping[str, str], argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command of the launcher's pod; `hosts` are the boot IDs of the nodes by the names of their hosts."""
    wanted = " ".join(f"{name}={boot_id}" for name, boot_id in hosts.items())
    return ("/bin/sh", "-c", SCRIPT, MARK, wanted, *argv)


def told(text: str) -> LauncherOutput:
    """Take a launcher's output apart."""
    output: list[str] = []
    notes: dict[str, list[str]] = {}
    for line in text.splitlines(keepends=True):
        if not line.startswith(f"{MARK} "):
            output.append(line)
            continue
        kind, _, rest = line[len(MARK) + 1 :].rstrip("\n").partition(" ")
        if kind in (BEFORE, AFTER):
            host, _, rest = rest.partition(" ")
            kind = f"{kind} {host}"
        notes.setdefault(kind, []).append(rest)
    words = notes.get("status", [""])[-1]
    errors = "".join(f"{line}\n" for line in notes.get("error", ()))
    ran = RAN.fullmatch(notes.get("ran", [""])[-1])
    return LauncherOutput(
        output="".join(output),
        errors=errors,
        status=int(words) if words.isdigit() else None,
        counted=_growth(notes),
        mpirun_s=max(0.0, float(ran[2]) - float(ran[1])) if ran else 0.0,
    )


def _growth(notes: Mapping[str, Sequence[str]]) -> dict[str, WorkerCounts]:
    """Return what each host that was asked twice counted in between."""
    hosts = [
        kind.partition(" ")[2] for kind in notes if kind.startswith(f"{BEFORE} ") and f"{AFTER}{kind[6:]}" in notes
    ]
    return {host: _difference(_read(notes[f"{BEFORE} {host}"]), _read(notes[f"{AFTER} {host}"])) for host in hosts}


def _read(lines: Sequence[str]) -> WorkerCounts:
    """Return what a worker has told: the boot ID, then /proc/net/dev, snmp and netstat, and files of its cgroup."""
    protocols = "\n".join(line for line in lines if PROTOCOL.match(line))
    others = "\n".join(line for line in lines[1:] if not PROTOCOL.match(line))
    found = ((pattern.search(others), unit) for pattern, unit in CPU_TIMES)
    return WorkerCounts(
        interfaces={name: counts_of(columns) for name, columns in interfaces.parse(others).items()},
        protocols=tcp.parse(protocols),
        cpu_s=next((int(match[1]) * unit for match, unit in found if match is not None), 0.0),
    )


def _difference(before: WorkerCounts, after: WorkerCounts) -> WorkerCounts:
    grown: dict[str, Counts] = {}
    for name in before.interfaces.keys() & after.interfaces.keys():
        first, last = before.interfaces[name], after.interfaces[name]
        grown[name] = (last[0] - first[0], last[1] - first[1], last[2] - first[2], last[3] - first[3])
    protocols = {name: value - before.protocols.get(name, value) for name, value in after.protocols.items()}
    return WorkerCounts(interfaces=grown, protocols=protocols, cpu_s=max(0.0, after.cpu_s - before.cpu_s))
