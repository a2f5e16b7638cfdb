"""Faults of the emulated cluster: its daemons, its containers, their ranks and their memory."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.stage import CELLS, REST_S, Seen, Stage, failures, rests, said_by_tare, words, wrongly_counted
from integration.live import Watch, compiled, ended, pids_of, start, wait_for, write_study

DONE = (0, 3, 4)
ENVIRONMENTS = ["bare", "docker+bridge"]


@dataclass(kw_only=True)
class Running:
    """A study on a lab that runs."""

    study: Path
    process: Any
    watch: Watch

    @property
    def lab(self) -> str:
        return f"s{self.process.pid}"

    @property
    def results(self) -> Path:
        return self.study.parent / "results" / self.study.stem

    def pids(self, part: str) -> list[int]:
        """Return the processes of the lab whose program's path ends so."""
        return [pid for pid in sorted(pids_of(self.lab)) if words(pid).split(" ")[0].endswith(part)]


def begun(stage: Stage, name: str, *, wait: bool = True, **keys: str) -> Running:
    """Start a study on a lab; wait until a launch in a container has run for some time."""
    folder = Path(tempfile.mkdtemp(prefix="tare-fault-", dir="/tmp"))
    program = shutil.copy(stage.program, folder)
    usual = {
        "workloads": f"{{rest: {{time_limit: 100s, command: [{program}, '{REST_S}']}}}}",
        "repetition": "{rounds: 2, max_rounds: 2, reruns: 0, turns: 1}",
        "placements": "[2x1]",
    }
    study = write_study(folder, name, ENVIRONMENTS, **{**usual, **keys})
    watch = Watch()
    running = Running(study=study, process=start("run", study, cwd=folder, before=("env",)), watch=watch)
    if wait:
        wait_for(lambda: rests(in_containers(running)) or running.process.poll() is not None, "rank in a container")
        assert running.process.poll() is None, running.process.communicate()
        watch.look(running.lab)
    return running


def in_containers(running: Running) -> list[int]:
    """Return the ranks that run in containers: their PID namespaces are not their node's."""
    own = os.readlink("/proc/self/ns/mnt")
    ranks = running.pids("rest-openmpi")
    below_docker = []
    for pid in ranks:
        try:
            cgroup = Path(f"/proc/{pid}/cgroup").read_text()
            if "docker" in cgroup and os.readlink(f"/proc/{pid}/ns/mnt") != own:
                below_docker.append(pid)
        except OSError:
            continue
    return below_docker


def finished(running: Running, *, cells: int = CELLS, rounds: int = 2) -> Seen:
    """Return what was seen of a study that must run to its end by itself."""
    result = ended(running.process)
    assert result.status in DONE, result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    assert wrongly_counted(running.results, cells=cells, rounds=rounds) == []
    return Seen(
        recorded=failures(running.results),
        codes=[result.status],
        said=said_by_tare(result.stderr),
        then="the study went on to its end",
        left=running.watch.left(running.lab),
    )


def resumed(stage: Stage, running: Running, code: int, said: str) -> Seen:
    """Run the same command again, which must run to its end and clean up."""
    again = Running(study=running.study, process=start("run", running.study, cwd=running.study.parent, before=("env",)),
                    watch=running.watch)  # fmt: skip
    seen = finished(again)
    left = [*seen.left, *running.watch.left(running.lab)]
    return Seen(recorded=seen.recorded, codes=[code, *seen.codes], said=said,
                then="the same command resumed it to its end", left=left)  # fmt: skip


def kill_first(pids: list[int]) -> None:
    assert pids, "there is nothing to kill"
    os.kill(pids[0], signal.SIGKILL)


def killing(find: Callable[[Running], list[int]]) -> Callable[[Stage], Seen]:
    """Return the play that kills one process in a launch in containers, after which the study must go on."""

    def play(stage: Stage) -> Seen:
        running = begun(stage, "kill")
        kill_first(find(running))
        return finished(running)

    return play


dockerd_killed = killing(lambda running: running.pids("dockerd"))
rank_killed = killing(in_containers)
mpirun_killed = killing(lambda running: running.pids("mpirun.openmpi") or running.pids("mpirun"))


def head_killed(stage: Stage) -> Seen:
    running = begun(stage, "head")
    os.kill(running.process.pid, signal.SIGKILL)
    ended(running.process)
    return resumed(stage, running, -9, "")


def interrupted_twice(stage: Stage) -> Seen:
    running = begun(stage, "sigint")
    os.kill(running.process.pid, signal.SIGINT)
    wait_for(lambda: not in_containers(running) or running.process.poll() is not None, "end of the launch")
    if running.process.poll() is None:
        os.kill(running.process.pid, signal.SIGINT)
    result = ended(running.process)
    assert result.status == 130, result.stderr
    left = running.watch.left(running.lab)
    assert left == [], left
    return resumed(stage, running, result.status, said_by_tare(result.stderr))


def out_of_memory(stage: Stage) -> Seen:
    """Let a rank exceed the memory limit of its container in each round; without a container it uses no memory."""
    program = compiled("allocate", stage.hosts.folder)
    seen_by_nodes = Path("/var/tmp") / f"tare-memory-{os.getpid()}"  # containers do not see it
    seen_by_nodes.mkdir()
    try:
        running = begun(
            stage,
            "memory",
            wait=False,
            placements="[{nodes: 2, ranks_per_node: 1, memory_per_container: 64MiB}]",
            workloads=f"{{grows: {{time_limit: 60s, command: [{program}, '200', '1', {seen_by_nodes}]}}}}",
        )
        return finished(running)
    finally:
        seen_by_nodes.rmdir()
