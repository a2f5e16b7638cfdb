"""Commands of a product run on a node of the lab, where its daemon is; what they make is removed, also on Ctrl-C."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from integration.live import Watch, cell_of, ended, live, outcome, pids_of, reached, start, tare, trials, write_study
from integration.node_state import argv_of

pytestmark = live("docker", "mmdebstrap")
IMAGES = "{run: [docker, image, ls, --format, '{{.Repository}}'], expect: {line: tare, no_line: tare-*-own-*}}"
MADE = "[docker, run, --name, '{name}-made', '{image}', touch, /made], [docker, commit, '{name}-made', '{name}-image']"
UNDO = "undo: [[docker, rm, --force, '{name}-made'], [docker, image, rm, '{name}-image']]"
NETWORK = "{run: [docker, network, inspect, --format, '{{.Driver}}', '{network}'], expect: overlay}"
WORKLOADS = f"""{{
  swarm: {{commands: [{{run: [docker, info, --format, '{{{{.Swarm.LocalNodeState}}}}'], expect: active}}]}},
  network: {{commands: [{NETWORK}]}},
  wrong: {{commands: [[docker, network, inspect, no-such-network]]}},
  made: {{commands: [{MADE}], {UNDO}}},
  after: {{commands: [{IMAGES}]}}
}}""".replace("\n", " ")


def test_commands_reach_the_daemon_of_the_first_node_and_leave_nothing(tmp_path: Path) -> None:
    study = write_study(tmp_path, "own", ["docker+overlay", "bare"], workloads=WORKLOADS)
    watch = Watch()
    result = tare("run", study, cwd=tmp_path)
    found = {trial["key"]["cell"].partition(" / ")[0]: trial for trial in trials(tmp_path / "results" / "own")}
    assert {cell_of(trial) for trial in found.values()} == {"docker+overlay"}, "on bare there is no docker"
    completed = {name for name, trial in found.items() if outcome(trial) == "Completed"}
    assert completed == {"swarm", "network", "made", "after"}, result.stderr
    assert outcome(found["wrong"]) == "Failed"
    assert "`docker network inspect no-such-network` ended with status 1" in found["wrong"]["outcome"]["reason"]
    assert watch.left(result.lab) == []


def test_what_commands_make_is_removed_when_the_run_is_interrupted(tmp_path: Path) -> None:
    waits = f"{{made: {{commands: [{MADE}, [tail, -f, /dev/null]], {UNDO}}}}}"
    study = write_study(tmp_path, "cut", ["docker"], workloads=waits, a_a="true")
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    reached(process, lambda: ["tail", "-f", "/dev/null"] in map(argv_of, pids_of(name)), "command that waits")
    watch.look(name)
    os.kill(process.pid, signal.SIGINT)
    result = ended(process)
    assert result.status == 130, result.stderr
    assert "Traceback" not in result.stderr
    assert watch.left(name) == []
    study = write_study(tmp_path, "later", ["docker"], workloads=f"{{after: {{commands: [{IMAGES}]}}}}", a_a="true")
    tare("run", study, cwd=tmp_path)
    found = trials(tmp_path / "results" / "later")
    assert {outcome(trial) for trial in found} == {"Completed"}, [trial["outcome"] for trial in found]
