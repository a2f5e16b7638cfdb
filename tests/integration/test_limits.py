"""What a container may use is enforced by the kernel in every runtime, and a limit that is hit is told as such."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from integration.live import (
    Ended,
    Watch,
    by_environment,
    cell_of,
    compiled,
    live,
    outcome,
    selected,
    trials,
    write_study,
)
from integration.studies import watched

pytestmark = live("docker", "podman", "apptainer", "charliecloud", "mmdebstrap")

RUNTIMES = ("bare", "docker", "podman", "apptainer", "charliecloud")
HYBRID = "apptainer, hybrid"
NAMES = tuple(
    pytest.param(name, marks=[pytest.mark.long] if name in ("podman", "apptainer", "charliecloud") else [])
    for name in (*RUNTIMES, HYBRID)
)
LIMIT_MIB = 96
SEEN_BY_NODES = Path(f"/srv/tare-test-limits-{os.getpid()}")
PLACEMENTS = (
    f"[{{nodes: 1, ranks_per_node: 2, memory_per_container: {LIMIT_MIB}MiB}}, "
    f"{{nodes: 1, ranks_per_node: 2, containers_per_node: 2, memory_per_container: {LIMIT_MIB}MiB}}]"
)
ONE, TWO = "1n x 2r, 96 MiB a container", "1n x 2r in 2c, 96 MiB a container"


@pytest.fixture(scope="module")
def ran(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Ended, Watch, dict[tuple[str, str, str], dict[str, Any]]]:
    """Run kernels that fit into the limit, and a program whose second rank uses more than both containers may."""
    folder = tmp_path_factory.mktemp("limits")
    program = compiled("allocate", folder)
    # The launch before the trials must end well: the first one on a node. Nodes see SEEN_BY_NODES, containers do not.
    once = f"{SEEN_BY_NODES}, /tmp/allocated"
    names = [name for name in RUNTIMES if name in {"bare", *selected(request, "name")}]
    environments = f"{{{', '.join(names)}, '{HYBRID}': {{runtime: apptainer, launch: hybrid}}}}"
    study = write_study(
        folder,
        "limits",
        environments,
        cluster="{lab: {nodes: 1, cores_per_node: 2}}",
        placements=PLACEMENTS,
        workloads=f"{{fits: {{time_limit: 300s, kernels: [{{barrier: {{iterations: 50}}}}]}}, "
        f"hits: {{time_limit: 300s, command: [{program}, '{3 * LIMIT_MIB}', '1', {once}]}}}}",
    )
    SEEN_BY_NODES.mkdir()
    try:
        result, watch = watched(study)
    finally:
        SEEN_BY_NODES.rmdir()
    found = {}
    for trial in trials(folder / "results" / "limits"):
        workload, placement, _ = trial["key"]["cell"].split(" / ")
        found[workload, placement, cell_of(trial)] = trial
    return result, watch, found


@pytest.mark.parametrize("placement", [ONE, TWO])
@pytest.mark.parametrize("name", NAMES)
def test_a_rank_that_hits_the_memory_limit_is_told_with_container_node_and_size(
    name: str, placement: str, ran: Any
) -> None:
    result, _, found = ran
    trial = found["hits", placement, name]
    assert outcome(trial) == "Failed", (trial["outcome"], result.stderr)
    said = trial["outcome"]["reason"]
    node = "d0" if name == "docker" else "n0"
    together = LIMIT_MIB * (2 if (name, placement) == ("bare", TWO) else 1)
    assert f"on node {node} ({together} MiB) was hit: a rank's process was killed by the kernel" in said
    assert said.startswith("the memory limit of the ranks" if name == "bare" else "the memory limit of container tare-")
    assert "raise memory_per_container" in said
    own_container = name == HYBRID or (placement == TWO and name != "bare")
    assert (f"{node}-1 on node" in said) == own_container, "the second rank is in the second container"


@pytest.mark.parametrize("placement", [ONE, TWO])
@pytest.mark.parametrize("name", NAMES)
def test_what_fits_completes_and_its_limits_are_among_the_facts(name: str, placement: str, ran: Any) -> None:
    result, _, found = ran
    trial = found["fits", placement, name]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    for rank in trial["ranks"]:
        stated = dict(part.split("=") for part in rank["rights"]["limits"].split())
        together = LIMIT_MIB * (2 if (name, placement) == ("bare", TWO) else 1)
        cores = 1 if name == HYBRID or (placement == TWO and name != "bare") else 2
        assert (stated["memory_bytes"], stated["cores"]) == (str(together << 20), str(cores)), stated
        assert "pids" not in stated, "nobody asked for it: Podman's own is 2048"


def test_nothing_is_left_of_limited_containers(ran: Any) -> None:
    result, watch, _ = ran
    assert watch.left(result.lab) == []


def test_a_fraction_of_a_cpu_is_a_limit_on_time_in_whatever_way_ranks_are_started(tmp_path: Path) -> None:
    ways = {f"{runtime} {way}": (runtime, way) for runtime in ("docker", "apptainer") for way in ("exec", "daemon")}
    listed = [f"{name}: {{runtime: {runtime}, launch: {way}}}" for name, (runtime, way) in ways.items()]
    result, watch = watched(
        write_study(
            tmp_path,
            "spin",
            f"{{{', '.join(listed)}}}",
            placements="[{nodes: 1, ranks_per_node: 1, cpus_per_container: 0.3}]",
            workloads="{compute: {time_limit: 300s, kernels: [{halo: {message_bytes: 8KiB, iterations: 20}}]}}",
        )
    )
    found = by_environment(tmp_path / "results" / "spin")
    for name in ways:
        (trial,) = found[name]
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
        assert trial["facts"]["cpu_quota"] == "0.3", "what the kernel says to the rank itself"
    assert watch.left(result.lab) == []


def test_shared_memory_is_as_large_as_the_environment_says(tmp_path: Path) -> None:
    sizes = {"docker": 48, "podman": 80}
    listed = [f"{name}: {{runtime: {name}, shm_size: {size}MiB}}" for name, size in sizes.items()]
    result, watch = watched(
        write_study(tmp_path, "shm", f"{{{', '.join(listed)}}}", placements="[{nodes: 1, ranks_per_node: 2}]")
    )
    found = by_environment(tmp_path / "results" / "shm")
    for name, size in sizes.items():
        assert found[name], (name, result.stderr)
        assert all(trial["facts"]["pod /dev/shm"] == f"{size} MiB" for trial in found[name])
    assert watch.left(result.lab) == []
