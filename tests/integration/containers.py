"""What an environment must show in a trial, in smoke tests and in those of runtimes and MPIs alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.live import Ended, Watch, by_environment, outcome, write_study
from integration.studies import PAYLOAD, SILENT, prove, roles, watched

LATENCY = "{micro: {time_limit: 300s, kernels: [{latency: {message_bytes: 65536, iterations: 60, warmup: 5}}]}}"
ON_ONE_NODE = {
    "cluster": "{lab: {nodes: 1, cores_per_node: 2}}",
    "placements": "[{nodes: 1, ranks_per_node: 2}]",
}
DAEMON, ONE, DAEMON_ONE = ("d0", "d1"), ("n0", "n0"), ("d0", "d0")
DOCKER_OWN = "ipc mnt net pid uts"
"""The namespaces of a container of Docker's or Podman's with a network of its own."""
ROOTLESS_OWN = "ipc mnt net pid user uts"
VETH = "data NIC, veth of the pod"


@dataclass(frozen=True)
class Case:
    """How an environment is stated, and what a trial of it must show."""

    stated: str
    own: str
    """The namespaces that ranks have for themselves; all others are their node's."""
    roles: str = "data NIC"
    """What carries the traffic, by the interfaces' roles."""
    mpi: str = "Open MPI v4"
    hosts: tuple[str, str] = ("n0", "n1")
    carries: bool = True
    """Whether messages take the network, and not the memory of the ranks' node."""


Studied = tuple[Ended, Watch, Mapping[str, list[dict[str, Any]]]]


def studied(folder: Path, cases: Mapping[str, Case], env: Mapping[str, str] | None = None, **keys: str) -> Studied:
    """Run a study of cases and return how it ended, what was seen, and the trials by environment."""
    environments = ", ".join(f'"{name}": {{{case.stated}}}' for name, case in cases.items())
    study = write_study(folder, "cases", f"{{{environments}}}", **{"workloads": LATENCY, **keys})
    result, watch = watched(study, env=env)
    assert result.status in (0, 3, 4), result.stderr
    return result, watch, by_environment(folder / "results" / "cases")


def check(case: Case, trial: Mapping[str, Any], result: Ended) -> None:
    """Hold a trial to what its environment claims: its containers, hosts, cores, MPI, and the way of its messages."""
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    for rank in trial["ranks"]:
        assert sorted(rank["namespaces"].keys() - {*rank["node_namespaces"]} - {"time"}) == case.own.split()
    first, second = trial["ranks"]
    assert (first["hostname"], second["hostname"]) == case.hosts
    assert not set(first["cpus"]) & set(second["cpus"]), "both ranks are on one core"
    assert " ".join(trial["mpi_library"].split()).startswith(case.mpi)
    assert ", ".join(sorted(roles(trial))) == case.roles
    if case.carries:
        prove(trial)
        assert (first["shared_memory_ranks"], second["shared_memory_ranks"]) == ([0], [1])
        assert (first["host"] == second["host"]) is (case.hosts[0] == case.hosts[1])
    else:
        assert first["shared_memory_ranks"] == second["shared_memory_ranks"] == [0, 1]
        assert sum(item["tx_bytes"] for item in trial["traffic"] if item["role"] != SILENT) < PAYLOAD / 10
        for kind in ("net", "ipc", "pid"):
            assert first["namespaces"][kind] == second["namespaces"][kind], kind
        apart = first["namespaces"]["mnt"] != second["namespaces"]["mnt"]
        assert apart is (
            "2c" in trial["key"]["cell"] and "mnt" in case.own and not case.stated.startswith("runtime: bare")
        )
