"""Faults of Slurm's daemons and of allocations, under studies that an ordinary user has submitted."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from faults.stage import CELLS, PATIENCE, RANK, REST_S, Seen, failures, goes_on_for, rests, said_by_tare, user_of, words
from integration.live import cell_of, outcome, trials, wait_for
from integration.slurm_nodes import SlurmNodes, name_of
from integration.ssh_hosts import UID
from tare.agent.remote.timing import SCALE
from tare.system.node import Node

DONE = ("0", "3", "4")
"""Exit codes of a job whose study ran to its end; 4 is that of failed cells."""
BLOCKS = 2
WENT_ON = "the study went on to its end"
REQUEUED = "Slurm queued the job again, which resumed the study to its end"
RESUMED = "the study was submitted again, which resumed it to its end"
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY")


@dataclass(kw_only=True)
class SlurmStage:
    """A Slurm cluster on which studies run as jobs while faults are played."""

    cluster: SlurmNodes
    numbers: Iterator[int]
    program: Path
    mounts: dict[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.cluster.site.nodes

    @property
    def second(self) -> Node:
        return self.nodes[1]

    # --- studies and their jobs ---------------------------------------------------------------------------------

    def study(self, fault: str, *, blocks: int = BLOCKS) -> Path:
        """Write a study of a name that was not used before: one round of some blocks of two launches each."""
        name = f"f{next(self.numbers)}{fault.replace('-', '')}"[:24]
        stated = {
            "name": name,
            "cluster": "slurm",
            "environments": "[bare, charliecloud]",
            "placements": "[2x1]",
            "workloads": f"{{rest: {{time_limit: 100s, command: [{self.program}, '{REST_S}']}}}}",
            "repetition": f"{{rounds: 1, max_rounds: 1, blocks_per_round: {blocks}, reruns: 0, turns: 1}}",
            "a_a": "false",
        }
        path = self.cluster.folder / f"{name}.yaml"
        path.write_text("".join(f"{key}: {value}\n" for key, value in stated.items()))
        self.mounts = {node.name: self._mounts(node) for node in self.nodes}
        return path

    def results(self, study: Path) -> Path:
        return self.cluster.home / "results" / study.stem

    def submit(self, study: Path, *, time_: str = "10min") -> str:
        """Submit a study as the user, with shorter leases; return the number of its job."""
        options = f"--allocations 1 --time {time_} --results {self.results(study)}"
        done = self.user(f"cd {self.program.parent} && tare submit {study} {options}")
        assert done.returncode == 0, done.stderr
        return done.stdout.split(" as job ")[1].split(":")[0]

    def user(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.shell(script, more={SCALE: PATIENCE})

    def log(self, study: Path) -> str:
        """Return what the job of a study wrote, in all of its allocations."""
        folder = self.cluster.home / "results" / f"{study.stem}.job"
        return "\n".join(each.read_text() for each in sorted(folder.glob("*.log"), key=lambda log: log.stat().st_mtime))

    def job(self, number: str) -> Mapping[str, str]:
        """Return what Slurm says of a job, none while the controller does not answer."""
        lines = self.cluster.root("scontrol", "--oneliner", "show", "job", f"{number}_1").stdout.splitlines()
        return dict(word.split("=", 1) for word in (lines[0].split() if lines else ()) if "=" in word)

    def ended(self, number: str) -> tuple[str, str]:
        """Wait until a job has ended; return its state and exit code."""
        wait_for(lambda: self.job(number).get("JobState") in ENDED, "end of the job")
        found = self.job(number)
        return found["JobState"], found["ExitCode"].split(":")[0]

    def until_ranks_run(self) -> None:
        """Wait until a launch rests on the second node."""
        wait_for(lambda: rests(self.ranks(self.second)), "rank")
        assert self.ranks(self.second), "the launch was over before the fault"

    def until_measured(self, study: Path, *, count: int = 1) -> None:
        """Wait until a study has stored some trials, and the next launch runs."""
        stored = self.results(study) / "trials.jsonl"
        wait_for(lambda: stored.exists() and len(trials(self.results(study))) >= count, "trial")
        self.until_ranks_run()

    # --- what runs where, and what is left ----------------------------------------------------------------------

    def ranks(self, node: Node) -> list[int]:
        return [pid for pid in sorted(node.group.pids()) if words(pid).split(" ")[0].endswith(f"/{RANK}")]

    def on(self, node: Node, *argv: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.root(*argv, node=node.index)

    def left(self) -> list[str]:
        """Wait until nothing is left on the nodes, as long as pytest lets it."""
        wait_for(lambda: not [each for node in self.nodes for each in self.left_on(node)], "end of what is left")
        return []

    def left_on(self, node: Node) -> list[str]:
        """Return what is left on a node: processes of the user, folders, notes, mounts."""
        found = [f"{node.name}: process {pid} {words(pid)[:160]}" for pid in node.group.pids() if user_of(pid) == UID]
        run = self.cluster.run
        listed = f"ls -d /tmp/tare-*x* /tmp/tare-{UID}/* {run}/tare/* /tmp/ompi.* /tmp/prte.* 2>/dev/null; true"
        found += [f"{node.name}: {line}" for line in self.on(node, "/bin/sh", "-c", listed).stdout.splitlines()]
        before = self.mounts.get(node.name, "").splitlines()
        found += [f"{node.name}: mount {place}" for place in self._mounts(node).splitlines() if place not in before]
        return found

    def end_all(self) -> None:
        """End what a play that failed has left, and bring all daemons back."""
        self.user(f"scancel --user={UID}")
        if "slurmctld" not in self.cluster.daemons:
            self.cluster.start_controller()
        for node in self.nodes:
            if f"slurmd-{node.name}" not in self.cluster.daemons:
                self.cluster.start_slurmd(node)
        self.controlled("update", f"nodename={','.join(map(name_of, self.nodes))}", "state=resume")
        self.cluster.wait_until_idle()

    def controlled(self, *words_: str) -> None:
        """Run scontrol as root; Slurm refuses some changes of what is so already."""
        self.cluster.root("scontrol", *words_)

    def _mounts(self, node: Node) -> str:
        lines = self.on(node, "cat", "/proc/mounts").stdout.splitlines()
        places = (line.split(" ")[1] for line in lines)
        return "\n".join(sorted(place for place in places if place.startswith("/tmp")))


def wrongly_counted(results: Path, *, blocks: int = BLOCKS) -> list[str]:
    """Return which trials of a finished study are lost, doubled or without their samples."""
    stored = trials(results)
    keys = [(cell_of(t), t["key"]["round"], t["key"]["block"], t["key"]["attempt"]) for t in stored]
    wrong = [f"{key} is stored {times} times" for key, times in Counter(keys).items() if times > 1]
    for number in range(blocks):
        of_block = [t for t in stored if t["key"]["block"] == number]
        last = max((t["key"]["attempt"] for t in of_block), default=-1)
        counted = sum(t["key"]["attempt"] == last and outcome(t) != "Interrupted" for t in of_block)
        if counted != CELLS:
            wrong.append(f"block {number + 1} has {counted} of {CELLS} trials")
    named = {Path(t["samples_file"]).name for t in stored if t["samples_file"]}
    kept = {file.name for file in (results / "samples").iterdir()} if (results / "samples").exists() else set()
    return wrong + [f"samples {name}" for name in sorted(named ^ kept)]


def own_words(log: str) -> str:
    """Return tare's first sentence in a job's log, which has its reports too."""
    return said_by_tare("\n".join(line for line in log.splitlines() if line.startswith("tare: ")))


def to_its_end(stage: SlurmStage, study: Path, number: str, then: str, *, blocks: int = BLOCKS) -> Seen:
    """Return what was seen of a study whose job must run to its end, with `then` what led there."""
    state, code = stage.ended(number)
    log = stage.log(study)
    assert "Traceback" not in log, log
    assert "internal error" not in log, log
    assert code in DONE, f"{state} {code}: {log}"
    assert wrongly_counted(stage.results(study), blocks=blocks) == [], log
    restarts = int(stage.job(number).get("Restarts", "0"))
    assert bool(restarts) == (then == REQUEUED), f"the job was queued again {restarts} times: {log}"
    return Seen(recorded=failures(stage.results(study)), codes=[int(code)], said=own_words(log), then=then)


def controller_killed(stage: SlurmStage) -> Seen:
    """Kill the controller in a launch, and start it again when the next launch must ask it for a step."""
    study = stage.study("controller", blocks=4)
    number = stage.submit(study)
    stage.until_measured(study)
    stage.cluster.stop("slurmctld")
    goes_on_for(REST_S + 4)
    stage.cluster.start_controller()
    return to_its_end(stage, study, number, WENT_ON, blocks=4)


def slurmd_restarted(stage: SlurmStage) -> Seen:
    """Kill a node's slurmd in a launch and start it again before Slurm takes the node for dead."""
    study = stage.study("slurmd")
    number = stage.submit(study)
    stage.until_ranks_run()
    stage.cluster.stop(f"slurmd-{stage.second.name}")
    goes_on_for(3)
    stage.cluster.start_slurmd(stage.second)
    return to_its_end(stage, study, number, WENT_ON)


def slurmd_gone(stage: SlurmStage) -> Seen:
    """Kill a node's slurmd and start it again when Slurm has taken the node for dead, and nothing is left there."""
    study = stage.study("nodefail", blocks=8)
    number = stage.submit(study)
    stage.until_measured(study)
    stage.cluster.stop(f"slurmd-{stage.second.name}")
    wait_for(lambda: "down" in stage.cluster.root("sinfo", "-h", "-n", "c2", "-o", "%T").stdout, "a dead node")
    wait_for(lambda: not stage.left_on(stage.second), "the end of the node's lease")
    stage.cluster.start_slurmd(stage.second)
    if stage.ended(number)[1] != "5":
        return to_its_end(stage, study, number, REQUEUED, blocks=8)
    log = stage.log(study)  # slurmd, back again, has killed the new steps too
    said = own_words(log.rpartition("run the same command to resume")[2])
    seen = to_its_end(stage, study, stage.submit(study), RESUMED, blocks=8)
    return Seen(
        recorded=seen.recorded, codes=[5, *seen.codes], said=said, then=f"Slurm queued the job again; {RESUMED}"
    )


def time_limit(stage: SlurmStage) -> Seen:
    """Let the time limit end an allocation amid a block."""
    study = stage.study("limit", blocks=5)
    number = stage.submit(study, time_="1min")
    wait_for(lambda: "queued again and will resume" in stage.log(study), "end of the time limit")
    return to_its_end(stage, study, number, REQUEUED, blocks=5)


def drained(stage: SlurmStage) -> Seen:
    """Drain a node that runs a launch: its job may go on."""
    study = stage.study("drained")
    number = stage.submit(study)
    stage.until_ranks_run()
    stage.controlled("update", "nodename=c2", "state=drain", "reason=a fault that is played")
    try:
        return to_its_end(stage, study, number, WENT_ON)
    finally:
        stage.controlled("update", "nodename=c2", "state=resume")


def preempted(stage: SlurmStage, *, grace_s: int = 0) -> Seen:
    """Submit a job to a partition that takes the nodes away."""
    study = stage.study("preempted")
    number = stage.submit(study)
    stage.until_measured(study)
    stage.controlled("update", "partitionname=main", f"gracetime={grace_s}")
    try:
        done = stage.user("sbatch --partition=urgent --nodes=2 --exclusive --output=/dev/null --wrap 'sleep 2'")
        assert done.returncode == 0, done.stderr
        wait_for(lambda: int(stage.job(number).get("Restarts", "0")), "preemption")
    finally:
        stage.controlled("update", "partitionname=main", "gracetime=0")
    return to_its_end(stage, study, number, REQUEUED)


def preempted_with_grace(stage: SlurmStage) -> Seen:
    return preempted(stage, grace_s=30)


def cancelled(stage: SlurmStage, *options: str) -> Seen:
    """Cancel the job, which must not be queued again; then submit the study once more."""
    study = stage.study("cancelled")
    number = stage.submit(study)
    stage.until_measured(study)
    assert stage.user(f"scancel {' '.join(options)} {number}").returncode == 0
    state, _ = stage.ended(number)
    assert state == "CANCELLED", stage.job(number)
    left = stage.left()
    assert left == [], left
    assert stage.job(number)["JobState"] == "CANCELLED"
    said = own_words(stage.log(study))
    before = (stage.results(study) / "trials.jsonl").read_bytes()
    seen = to_its_end(stage, study, stage.submit(study), RESUMED)
    assert (stage.results(study) / "trials.jsonl").read_bytes().startswith(before)
    return Seen(recorded=seen.recorded, codes=seen.codes, said=said, then=RESUMED)


SlurmPlay = Callable[[SlurmStage], Seen]
