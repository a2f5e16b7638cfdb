"""What the tests of runtimes without a daemon share: they run the same environments and are held to the same."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from integration.live import (
    Ended,
    Watch,
    by_environment,
    compiled,
    ended,
    outcome,
    pids_of,
    selected,
    start,
    tare,
    trials,
    wait_for,
    write_study,
)
from integration.studies import PAYLOAD, SILENT, prove, ran, roles
from tare.deploy.hosts import Deployed
from tare.host.process import Result, run
from tare.model import Placement

CARRIERS = {
    "host": {"data NIC"},
    "bridge": {"veth of the pod", "data NIC"},
    "direct": {"data NIC in the pod"},
    "macvlan": {"macvlan", "data NIC"},
}
NETWORKS = [  # of each runtime; what is wired is the same for all, and test_networks_contract.py has it
    pytest.param(network, marks=[pytest.mark.long] if network in ("direct", "macvlan") else []) for network in CARRIERS
]
TWO_ROUNDS = "{rounds: 2, max_rounds: 2}"
ENOUGH = "{rounds: 40, max_rounds: 40}"
INTERRUPTS = (
    pytest.param(signal.SIGINT, id="SIGINT"),
    pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.long),  # the same handler; test_leftovers has both
)


def ran_everywhere(runtime: str, folder: Path, request: pytest.FixtureRequest) -> tuple[Ended, Watch, Path]:
    """Run bare and a runtime on the networks that tests ask for, and on one side only."""
    names = ["bare", *(f"{runtime}+{network}" for network in CARRIERS if network in selected(request, "network"))]
    sides = [f"{runtime} {side}: {{runtime: {runtime}, network: bridge, sides: {side}}}" for side in SIDES]
    return ran(folder, f"{{{', '.join([*names, *sides])}}}")


SIDES = ("sender", "receiver")


def check_network(name: str, network: str, everywhere: tuple[Ended, Watch, Path]) -> None:
    """Hold a trial to what its network must have carried, on nodes and cores of their own."""
    result, _, results = everywhere
    (trial,) = by_environment(results)[name]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    prove(trial)
    assert roles(trial) == CARRIERS[network]
    first, second = trial["ranks"]
    assert (first["hostname"], second["hostname"]) == ("n0", "n1")
    assert first["host"] != second["host"]
    assert not set(first["cpus"]) & set(second["cpus"])


def check_one_node(runtime: str, folder: Path) -> None:
    """Run two ranks on one node, over TCP and over shared memory: in one container, and in one each of one pod."""
    result, watch, results = ran(
        folder,
        f"{{tcp: {{runtime: {runtime}, network: host, transport: tcp}}, "
        f"shm: {{runtime: {runtime}, network: bridge, transport: shm}}}}",
        cluster="{lab: {nodes: 1, cores_per_node: 2}}",
        placements="[{nodes: 1, ranks_per_node: 2}, {nodes: 1, ranks_per_node: 2, containers_per_node: 2}]",
    )
    found = by_environment(results)
    assert set(found) == {"tcp", "shm"}
    for name, its in found.items():
        assert len(its) == 2, (name, result.stderr)
        for trial in its:
            assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
            first, second = trial["ranks"]
            assert first["host"] == second["host"]
            assert not set(first["cpus"]) & set(second["cpus"])
            assert first["shared_memory_ranks"] == [0, 1]
            assert sum(t["tx_bytes"] for t in trial["traffic"] if t["role"] != SILENT) < PAYLOAD, name
            if "2c" in trial["key"]["cell"]:
                assert first["namespaces"]["mnt"] != second["namespaces"]["mnt"], "both ranks are in one container"
            for kind in ("net", "ipc", "pid"):
                assert first["namespaces"][kind] == second["namespaces"][kind], kind
    assert watch.left(result.lab) == []


def check_several(runtime: str, folder: Path) -> None:
    """Give each of a node's two ranks a container of its own in one pod."""
    result, watch, results = ran(
        folder,
        [f"{runtime}+host", f"{runtime}+bridge"],
        cluster="{lab: {nodes: 1, cores_per_node: 2}}",
        placements="[{nodes: 1, ranks_per_node: 2, containers_per_node: 2}]",
    )
    found = by_environment(results)
    assert len(found) == 2
    for name, (trial,) in found.items():
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
        first, second = trial["ranks"]
        assert first["namespaces"]["mnt"] != second["namespaces"]["mnt"], "both ranks are in one container"
        for kind in ("net", "ipc", "pid"):
            assert first["namespaces"][kind] == second["namespaces"][kind], kind
        assert first["shared_memory_ranks"] == [0, 1]
        assert not set(first["cpus"]) & set(second["cpus"])
    assert watch.left(result.lab) == []


def check_command(runtime: str, folder: Path, program_folder: Path) -> None:
    """Run a user's program, which no image has, from its own folder."""
    program = compiled("misbehave", program_folder)
    result, watch, results = ran(
        folder, [f"{runtime}+host", f"{runtime}+bridge"], workloads=f"{{app: {{command: [{program}, well]}}}}"
    )
    for name, (trial,) in by_environment(results).items():
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
    assert len(by_environment(results)) == 2
    assert watch.left(result.lab) == []


def check_interrupted(runtime: str, folder: Path, number: signal.Signals) -> None:
    """Interrupt a run in its rounds: it undoes everything and ends with 130."""
    process, name, watch = _begun(runtime, folder, ENOUGH)
    os.kill(process.pid, number)
    result = ended(process, 30)
    assert result.status == 130, result.stderr
    assert "Traceback" not in result.stderr
    assert watch.left(name) == []


def check_killed(runtime: str, folder: Path) -> None:
    """Kill a run: the next one removes all that it left."""
    process, name, watch = _begun(runtime, folder, TWO_ROUNDS)
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    assert pids_of(name), "nothing was left: the test proves nothing"
    result = tare("run", folder / "cut.yaml", cwd=folder)
    assert result.status in (0, 3), result.stderr
    kinds = [outcome(trial) for trial in trials(folder / "results" / "cut")]
    assert kinds.count("Completed") >= 4, result.stderr
    assert watch.left(result.lab) == []
    assert watch.left(name) == []


def _begun(runtime: str, folder: Path, repetition: str) -> tuple[Any, str, Watch]:
    study = write_study(folder, "cut", [f"{runtime}+host", f"{runtime}+bridge"], repetition=repetition)
    watch = Watch()
    process = start("run", study, cwd=folder)
    name = f"s{process.pid}"
    wait_for(lambda: trials(folder / "results" / "cut") or process.poll() is not None, "trial", 60)
    assert process.poll() is None, process.stderr.read()
    watch.look(name)
    return process, name, watch


def inside(up: Deployed, script: str, *, check: bool = True) -> Result:
    """Run a shell script in the first container, as the MPI's daemon is started there."""
    agent = up.hosts(Placement())[0].agent
    assert agent is not None
    return run((*agent.argv, "/bin/sh", "-c", script), check=check, timeout_s=20, what=shlex.join(agent.argv))
