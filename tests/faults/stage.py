"""Where faults are played: hosts with a real sshd, an ordinary user's head, and what is seen of them from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.live import cell_of, outcome, trials, wait_for
from integration.ssh_hosts import UID, SshHosts, start_sshd
from tare.agent.remote.timing import SCALE
from tare.system.node import Node

RANK = "rest-openmpi"
PATIENCE = "0.2"
"""How much shorter the lease and the probes are, unless a play uses the real ones."""
REST_S = 4
"""How long a launch takes at least, so that a fault hits one however busy the machine is."""
USUAL: Mapping[str, str] = {
    "environments": "[bare, charliecloud]",
    "placements": "[2x1]",
    "repetition": "{rounds: 2, max_rounds: 2, reruns: 0, turns: 1}",
    "a_a": "false",
}
CELLS, ROUNDS = 2, 2
OF_OTHERS = ("another lab is up", "tare: not verified: ")
"""What tare says of other runs on this machine, before a study."""


def rests(ranks: Sequence[int]) -> bool:
    """Tell whether ranks rest, which they do once MPI is initialised on all of them."""
    return bool(ranks) and all("nanosleep" in Path(f"/proc/{pid}/wchan").read_text() for pid in ranks)


def goes_on_for(seconds: float) -> None:
    """Let a fault that is planted go on: its length is what is played, no wait for something else."""
    subprocess.run(("sleep", str(seconds)), check=True)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a play has shown: trials that were not completed, how the commands ended, what was left."""

    recorded: Sequence[str]
    codes: Sequence[int]
    said: str
    then: str
    left: Sequence[str] = ()
    took_s: float = 0.0


@dataclass(kw_only=True)
class Head:
    """A `tare run` of the ordinary user that was started; `pid` is that of tare itself."""

    process: subprocess.Popen[str]
    pid: int = 0

    def wait(self) -> tuple[int, str]:
        """Return the exit code, and what was written to stderr."""
        _, errors = self.process.communicate()
        assert "Traceback" not in errors, errors
        assert "internal error" not in errors, errors
        return self.process.returncode, errors


@dataclass(kw_only=True)
class Stage:
    """Hosts on which studies run while faults are played."""

    hosts: SshHosts
    numbers: Iterator[int]
    program: Path
    preloaded: str = ""
    boot: Path | None = None
    started: list[Head] = field(default_factory=list)
    mounts: dict[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.hosts.site.nodes

    @property
    def second(self) -> Node:
        return self.nodes[1]

    def study(self, fault: str, **keys: str) -> Path:
        """Write a study of a name that was not used before."""
        name = f"f{next(self.numbers)}{fault.replace('-', '')}"[:24]
        listed = ", ".join(self.hosts.names)
        cluster = f"{{ssh: {{hosts: [{listed}], ssh_config: {self.hosts.config}}}}}"
        command = f"{{rest: {{time_limit: 100s, command: [{self.program}, '{REST_S}']}}}}"
        stated = {"name": name, "cluster": cluster, "workloads": command, **USUAL, **keys}
        path = self.hosts.folder / f"{name}.yaml"
        path.write_text("".join(f"{key}: {value}\n" for key, value in stated.items()))
        self.note_mounts()
        return path

    def note_mounts(self) -> None:
        """Note what is mounted on the hosts, before a play."""
        self.mounts = {node.name: self._mounts(node) for node in self.nodes}

    def results(self, study: Path) -> Path:
        return self.hosts.folder / "home" / "results" / study.stem

    def start(self, *arguments: str | Path, patience: str = PATIENCE, env: Mapping[str, str] | None = None) -> Head:
        """Start tare as the user, with shorter leases unless `patience` is 1."""
        before = self.hosts.before()
        if self.boot is not None:
            before = _with_boot(before, self.boot)
        process = subprocess.Popen(
            (*before, "-m", "tare.cli.app", *map(str, arguments)),
            env={**self.hosts.environment(), SCALE: patience, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        head = Head(process=process)
        self.started.append(head)
        head.pid = wait_for(lambda: self._tare_below(process), "tare")
        return head

    def restart_sshd(self, *, patience: str = PATIENCE) -> None:
        """Start the sshd of every host again, where it has ended or serves nodes with other leases."""
        for node in self.nodes:
            daemon = self.hosts.daemons[node.name]
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
            self.hosts.daemons[node.name] = start_sshd(node, self.hosts.folder, f"{SCALE}={patience}")
            wait_for(lambda node=node: self._listens(node), "sshd")

    def _listens(self, node: Node) -> bool:
        return ":22 " in self.hosts.on(node, "ss", "-Hltn").stdout

    def end_all(self) -> None:
        """End what a play that failed has left running, and make the hosts reachable."""
        for head in self.started:
            if head.process.poll() is None:
                os.killpg(head.process.pid, signal.SIGKILL)
                with suppress(ValueError):
                    head.process.communicate(timeout=30)
        self.started.clear()
        for node in self.nodes:
            self.reach(node, True)

    # --- what runs where ----------------------------------------------------------------------------------------

    def pids(self, node: Node, part: str = "", *, by: int | None = UID) -> list[int]:
        """Return the processes on a host whose command line has a part; `by` is their user, None for any."""
        return [pid for pid in sorted(node.group.pids()) if part in words(pid) and (by is None or user_of(pid) == by)]

    def ranks(self, node: Node, name: str = RANK) -> list[int]:
        """Return the ranks on a host."""
        return [pid for pid in sorted(node.group.pids()) if words(pid).split(" ")[0].endswith(f"/{name}")]

    def services(self, node: Node) -> list[int]:
        """Return the node's service that was started last, if it runs."""
        return [pid for pid in self.pids(node, "python3 -ISc") if "sshd" not in words(pid)][:1]

    def until_ranks_run(self, head: Head) -> None:
        """Wait until a launch rests on the second host; the first one is no trial but a calibration."""
        first = wait_for(lambda: self.ranks(self.second) or head.process.poll() is not None, "rank")
        wait_for(lambda: self.ranks(self.second) != first or head.process.poll() is not None, "its end")
        wait_for(lambda: rests(self.ranks(self.second)) or head.process.poll() is not None, "rank")
        assert head.process.poll() is None, head.process.communicate()
        assert self.ranks(self.second), "the launch was over before the fault"

    def launchers(self, head: Head) -> list[int]:
        """Return the launchers that tare has started."""
        return [pid for pid in children(head.pid) if "mpirun" in words(pid).split(" ")[0]]

    # --- reachable or not ---------------------------------------------------------------------------------------

    def reach(self, node: Node, able: bool) -> None:
        """Take a host off the network, or put it back, at the head's end of its link."""
        enter = self.hosts.site.head
        subprocess.run((*enter, "ip", "link", "set", node.name, "up" if able else "down"), check=True)

    @contextmanager
    def unreachable(self, node: Node) -> Iterator[None]:
        self.reach(node, False)
        try:
            yield
        finally:
            self.reach(node, True)

    # --- what is left -------------------------------------------------------------------------------------------

    def left(self) -> list[str]:
        """Wait until nothing is left on the hosts and the head, as long as pytest lets it."""
        wait_for(
            lambda: not ([each for node in self.nodes for each in self.left_on(node)] or self.left_on_head()),
            "end of what is left",
        )
        return []

    def left_on(self, node: Node) -> list[str]:
        """Return what is left on a host: processes of the user, folders, notes, mounts, containers' namespaces."""
        pids = [pid for pid in self.pids(node) if not words(pid).startswith("sshd: ")]  # TCP ends the last ones
        found = [f"{node.name}: process {pid} {words(pid)[:160]}" for pid in pids]
        listed = (
            f"ls -d /tmp/tare-*x* /tmp/tare-{UID}/* /run/user/{UID}/tare/* /tmp/ompi.* /tmp/prte.* 2>/dev/null; true"
        )
        shown = self.hosts.on(node, "/bin/sh", "-c", listed).stdout.splitlines()
        found += [f"{node.name}: {line}" for line in shown]
        before = self.mounts.get(node.name, "").splitlines()
        found += [f"{node.name}: mount {place}" for place in self._mounts(node).splitlines() if place not in before]
        return found

    def left_on_head(self) -> list[str]:
        """Return what is left of this stage's heads on their machine."""
        found = [f"head: process {pid} {words(pid)[:160]}" for pid in pids_with(str(self.hosts.folder))]
        found += [f"head: {path}" for path in (self.hosts.run / "tare").glob("*")]
        for head in self.started:
            found += [f"head: {path}" for path in Path("/tmp").glob(f"tare-s{head.pid}x*")]
        return found

    def _mounts(self, node: Node) -> str:
        lines = self.hosts.on(node, "cat", "/proc/mounts").stdout.splitlines()
        places = (line.split(" ")[1] for line in lines)
        return "\n".join(sorted(place for place in places if place.startswith("/tmp")))

    def _tare_below(self, process: subprocess.Popen[str]) -> int:
        assert process.poll() is None, process.communicate()
        below = [process.pid, *children(process.pid)]
        return next((pid for pid in below if "tare.cli.app" in words(pid) and words(pid).split(" ")[0] != "/bin/sh"
                     and "nsenter" not in words(pid) and "unshare" not in words(pid)), 0)  # fmt: skip


def failures(results: Path) -> list[str]:
    """Return the outcomes with their reasons of the trials that were not completed, each once."""
    found = [
        f"{outcome(trial)}: {general(trial['outcome'].get('reason', ''))}"
        for trial in trials(results)
        if outcome(trial) != "Completed"
    ]
    return list(dict.fromkeys(found))


def wrongly_counted(results: Path, *, cells: int = CELLS, rounds: int = ROUNDS) -> list[str]:
    """Return which trials of a finished study are lost, doubled or without their samples."""
    stored = trials(results)
    keys = [(cell_of(t), t["key"]["round"], t["key"]["block"], t["key"]["attempt"]) for t in stored]
    wrong = [f"{key} is stored {times} times" for key, times in Counter(keys).items() if times > 1]
    for number in range(rounds):
        of_round = [t for t in stored if t["key"]["round"] == number]
        last = max((t["key"]["attempt"] for t in of_round), default=-1)
        counted = sum(t["key"]["attempt"] == last and outcome(t) != "Interrupted" for t in of_round)
        if counted != cells:
            wrong.append(f"round {number + 1} has {counted} of {cells} trials")
    named = {Path(t["samples_file"]).name for t in stored if t["samples_file"]}
    kept = {file.name for file in (results / "samples").iterdir()} if (results / "samples").exists() else set()
    return wrong + [f"samples {name}" for name in sorted(named ^ kept)]


def general(words_: str) -> str:
    """Return a sentence without what differs from play to play."""
    text = re.sub(r"\bs\d+x[0-9a-f]+(?:-\d+)*|\bs\d+-\d+(?:-d?\d+)*", "RUN", words_)
    text = re.sub(r"results/f\d+\w+", "results/STUDY", text)
    text = re.sub(r"\b\d+(?:\.\d+){3}\b", "ADDRESS", text)
    text = re.sub(r"rank \d+ with PID (?:\d+|N) on node (\w)\d", r"rank N with PID N on node \1N", text)
    text = re.sub(r"/\S*/", "…/", text)
    text = re.sub(r"process(es)? \d+", r"process\1 N", text)
    text = re.sub(r"PID \d+", "PID N", text)
    return " ".join(text.split())[:400]


def said_by_tare(errors: str) -> str:
    """Return tare's own sentence on how it ended."""
    lines = errors.splitlines()
    own = [line.startswith("tare: ") and not any(words in line for words in OF_OTHERS) for line in lines]
    first = next((number for number, is_own in enumerate(own) if is_own), None)
    if first is None:
        return ""
    more = [line.strip() for line in lines[first + 1 :] if line.startswith("  ")]
    return general(" — ".join([lines[first].removeprefix("tare: "), *more[:1]]))


def words(pid: int) -> str:
    """Return the command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Return the processes below one, itself left out."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        of_one = parents.get(todo.pop(), [])
        found += of_one
        todo += of_one
    return found


def pids_with(part: str) -> list[int]:
    """Return the processes of the user whose command line has a part."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and part in words(int(entry.name)) and user_of(int(entry.name)) == UID
    ]


def user_of(pid: int) -> int:
    """Return the user of a process; those of a user's containers have numbers of the user's range."""
    try:
        number = os.stat(f"/proc/{pid}").st_uid
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        number = int(next(line for line in lines if line.startswith("Uid:")).split()[1])
    except (OSError, StopIteration):
        return -1
    return UID if number >= 1_800_000_000 else number


def _with_boot(before: Sequence[str], boot: Path) -> tuple[str, ...]:
    """Return the argv prefix of a head whose kernel shows the boot ID of a file."""
    mount = f"mount --bind {boot} /proc/sys/kernel/random/boot_id; "
    return tuple(mount + word if "mount --bind" in word and "exec" in word else word for word in before)


def saved(path: Path, **row: Any) -> None:
    """Append a row to a file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


Play = Callable[[Stage], Seen]
