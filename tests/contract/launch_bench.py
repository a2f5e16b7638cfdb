"""Every way of launching as a small fake, and a bench on which the real agent meets them, as a process of its own.

The tools that a way enters places with (nsenter, docker, ssh, apptainer, kubectl, srun) are recording programs that
behave as the real ones do where it matters: which token begins the command, whether a shell reads it, whether the
environment of who enters is forgotten.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tare.mpi.launch import Context, Entry, Host, Launch, write_agent, write_map
from tare.system.namespaces import plain_python

RANKS_PER_NODE = 2
PROGRAM = ("app", "--text", "two words", "$HOME;`id`", "'quoted'")
CORE = min(os.sched_getaffinity(0))

TOOL = """#!{python} -IS
import json, os, subprocess, sys
name, argv = os.path.basename(sys.argv[0]), sys.argv[1:]
with open({record!r}, "a") as file:
    file.write(json.dumps({{
        "tool": name, "argv": argv, "pid": os.getpid(), "cpus": sorted(os.sched_getaffinity(0)),
        "environment": dict(os.environ),
    }}) + "\\n")
forgotten = {{"PATH": os.environ["PATH"]}}
if name == "nsenter":
    os.execvpe(argv[argv.index("--") + 1], argv[argv.index("--") + 1:], os.environ)
if name == "docker":
    os.execvpe(argv[2], argv[2:], forgotten)
if name == "kubectl":
    os.execvpe(argv[argv.index("--") + 1], argv[argv.index("--") + 1:], forgotten)
if name == "apptainer":
    os.execvpe(argv[2], argv[2:], os.environ)
if name == "ssh":
    os.execvpe("/bin/sh", ["sh", "-c", " ".join(argv[3:])], forgotten)
"""

# A launcher as mpirun is: one daemon a host through its agent, told as one line for a shell; the daemon starts ranks.
MPIRUN = """#!{python} -IS
import os, shlex, subprocess, sys
status = 0
for part in " ".join(map(shlex.quote, sys.argv[1:])).split(" : "):
    hosts, *program = shlex.split(part)
    for host in hosts.split(","):
        name, ranks = host.split("=")
        agent = os.environ["FAKE_AGENT"]
        words = [shlex.quote(word) for word in ("orted", ranks, *program)]
        status |= subprocess.run([agent, "-x", name, *words]).returncode
sys.exit(status)
"""
ORTED = """#!{python} -IS
import os, subprocess, sys
status = 0
for rank in range(int(sys.argv[1])):
    environment = {{**os.environ, "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "PMIX_RANK": str(rank)}}
    status |= subprocess.run(sys.argv[2:], env=environment).returncode
sys.exit(status)
"""
# srun starts ranks itself; TARE_HOST stands for the node's own hostname, which a test cannot change.
SRUN = """#!{python} -IS
import os, subprocess, sys
hosts, *program = sys.argv[1:]
status = 0
for host in hosts.split(","):
    name, ranks = host.split("=")
    for rank in range(int(ranks)):
        environment = {{**os.environ, "TARE_HOST": name, "SLURM_LOCALID": str(rank), "PMIX_RANK": str(rank)}}
        status |= subprocess.run(program, env=environment).returncode
sys.exit(status)
"""


@dataclass(frozen=True, slots=True)
class Way:
    """One way of launching: how daemons and ranks get to their place."""

    name: str
    agent: Callable[[str], Entry] | None
    enter: Callable[[str, int], Entry] | None = None
    launcher: str = "mpirun"

    def passes(self, host: str, local: int) -> list[tuple[str, ...]]:
        """Return what a rank passes on its way."""
        entries = (self.agent and self.agent(host), self.enter and self.enter(host, local))
        return [entry.argv for entry in entries if entry]


def _nsenter(host: str) -> Entry:
    return Entry(argv=("nsenter", "-t", host[1:], "--all", "--"))


def _carried(*argv: str, shell: bool = True) -> Entry:
    return Entry(argv=argv, shell=shell, carry=True)


def _in_apptainer(_host: str, _local: int) -> Entry:
    return Entry(argv=("apptainer", "exec", "image.sif"))


WAYS = (
    Way("bare: the daemon is put into the pod's namespaces", _nsenter),
    Way("docker: the daemon is started in the pod's container", lambda host: _carried("docker", "exec", f"c-{host}")),
    Way("sshd in containers, on a port of its own", lambda host: _carried("ssh", "-p", "9100", host, shell=False)),
    Way("hybrid: the daemon on the node, each rank in a container", _nsenter, _in_apptainer),
    Way("one container a rank", _nsenter, lambda _, local: _carried("docker", "exec", f"c{local}")),
    Way("srun: the scheduler starts the ranks", None, _in_apptainer, "srun"),
    Way("Kubernetes: the daemon is started in the pod", lambda host: _carried("kubectl", "exec", host, "--")),
)
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name.split(":")[0])


def hosts_of(way: Way, ranks: int = RANKS_PER_NODE) -> tuple[Host, ...]:
    return tuple(
        Host(
            name=name,
            ranks=ranks,
            agent=way.agent(name) if way.agent else None,
            enter=tuple(way.enter(name, local) for local in range(ranks)) if way.enter else (),
        )
        for name in ("n0", "n1")
    )


def launch_of(way: Way, hosts: tuple[Host, ...] | None = None) -> Launch:
    hosts = hosts_of(way) if hosts is None else hosts
    context = Context(hosts=hosts, program=PROGRAM, options=(",".join(f"{each.name}={each.ranks}" for each in hosts),))
    return Launch(head=("nsenter", "-n4711", "--"), launcher=(way.launcher,), hosts=hosts, contexts=(context,))


class Bench:
    """A folder with the recording programs on PATH, the real agent and a launch map."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folder / "record.jsonl"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.agent = write_agent(folder, plain_python())
        for names, text in (
            (("nsenter", "docker", "ssh", "apptainer", "kubectl", "app", "daemon"), TOOL),
            (("mpirun",), MPIRUN),
            (("orted",), ORTED),
            (("srun",), SRUN),
        ):
            for name in names:
                file = self.bin / name
                file.write_text(text.format(python=plain_python(), record=str(self.record)))
                file.chmod(0o755)

    def map(self, launch: Launch | None = None, text: str | None = None) -> Path:
        path = self.folder / "map.json"
        if launch is not None:
            write_map(launch, path)
        elif text is not None:
            path.write_text(text)
        return path

    def run(self, *argv: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        given = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "TARE_LAUNCH_MAP": str(self.folder / "map.json"),
            "FAKE_AGENT": str(self.agent),
            "LAUNCHER_ONLY": "must not reach a daemon",
            **(environment or {}),
        }
        return subprocess.run(argv, env=given, capture_output=True, text=True, check=False)

    def records(self, tool: str = "") -> list[dict[str, Any]]:
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [r for r in map(json.loads, lines) if not tool or r["tool"] == tool]


def sentence(result: subprocess.CompletedProcess[str]) -> str:
    """Return what a refusing agent said, having checked that it is one line, ours, and no traceback."""
    assert result.returncode == 125
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("tare-agent: ")
    return line.removeprefix("tare-agent: ")
