"""Every environment runs for real, proves its treatment, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from integration.live import Ended, Watch, by_environment, ended, live, outcome, selected, start, write_study
from tare.summary import surroundings

pytestmark = live("docker", "cni", "mmdebstrap")

BYTES = 65536
ITERATIONS = 60
PAYLOAD = BYTES * ITERATIONS
LATENCY = f"{{latency: {{message_bytes: {BYTES}, iterations: {ITERATIONS}, warmup: 5}}}}"
KERNELS = f"{{micro: {{time_limit: 30s, kernels: [{LATENCY}, {{barrier: {{iterations: 20, warmup: 5}}}}]}}}}"

CARRIERS: Mapping[str, set[str]] = {
    "bare": {"data NIC"},
    "bare+image": {"data NIC"},
    "bare+bridge": {"veth of the pod", "data NIC"},
    "bare+direct": {"data NIC in the pod"},
    "bare+macvlan": {"macvlan", "data NIC"},
    "docker+host": {"data NIC"},
    "docker+bridge": {"veth of the pod", "data NIC"},
    "docker+direct": {"data NIC in the pod"},
    "docker+macvlan": {"macvlan", "data NIC"},
    "docker+overlay": {"overlay", "data NIC under the VXLAN"},
}
SIDES = {
    f"{runtime}+{network} {side}": f"{{runtime: {runtime}, network: {network}, sides: {side}}}"
    for runtime, network, side in (
        ("docker", "bridge", "receiver"),
        ("docker", "bridge", "sender"),
        ("docker", "direct", "receiver"),
        ("bare", "direct", "sender"),
    )
}
USUAL = ("bare", "bare+image", "docker+bridge", "docker+overlay", "docker+bridge receiver", "bare+direct sender")
NAMES = [
    pytest.param(name, marks=[] if name in USUAL else [pytest.mark.long])  # networks: test_networks_contract.py
    for name in (*CARRIERS, *SIDES)
]


def hosts_of(name: str) -> tuple[str, str]:
    """Return the hosts of an environment: containers of Docker are on those with a daemon, all else on the others."""
    inside = "d" if name.startswith("docker") else "n"
    return ("n" if name.endswith("receiver") else inside) + "0", ("n" if name.endswith("sender") else inside) + "1"


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Ended, Watch, Path]:
    folder = tmp_path_factory.mktemp("environments")
    wanted = {"bare", *selected(request, "name")}
    names = [name for name in (*CARRIERS, *SIDES) if name in wanted]
    stated = ", ".join(f"{name}: {SIDES[name]}" if name in SIDES else name for name in names)
    study = write_study(folder, "all", f"{{{stated}}}", workloads=KERNELS)
    watch = Watch()
    process = start("run", study, cwd=folder)
    with watch.looking(f"s{process.pid}"):
        result = ended(process, 110)
    return result, watch, folder / "results" / "all"


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_completes_and_proves_where_its_traffic_went(
    name: str, two_nodes: tuple[Ended, Watch, Path]
) -> None:
    result, _, results = two_nodes
    (trial,) = by_environment(results)[name]
    assert outcome(trial) == "Completed", (trial["outcome"], result.stderr)
    prove(trial)
    roles = {t["role"] for t in trial["traffic"]} - {"must stay silent"}
    if name in CARRIERS:
        assert roles == CARRIERS[name]
    assert {t["node"] for t in trial["traffic"] if t["role"] in roles} == set(hosts_of(name))


def prove(trial: Mapping[str, Any]) -> None:
    """Hold every interface that is claimed to the payload, in both directions, and the others to silence."""
    for item in trial["traffic"]:
        sent, received = item["tx_bytes"], item["rx_bytes"]
        if item["role"] == "must stay silent":
            assert max(sent, received) < PAYLOAD / 10, item
        else:
            assert PAYLOAD <= sent <= 1.5 * PAYLOAD, item
            assert PAYLOAD <= received <= 1.5 * PAYLOAD, item


def test_the_ranks_were_on_different_hosts_on_cores_of_their_own(two_nodes: tuple[Ended, Watch, Path]) -> None:
    for name, (trial,) in by_environment(two_nodes[2]).items():
        first, second = trial["ranks"]
        assert first["host"] != second["host"], name
        assert (first["hostname"], second["hostname"]) == hosts_of(name), name
        assert not set(first["cpus"]) & set(second["cpus"]), name
        assert first["shared_memory_ranks"] == [0], name


def test_one_side_only_puts_only_that_side_into_the_environment(two_nodes: tuple[Ended, Watch, Path]) -> None:
    found = by_environment(two_nodes[2])
    for name in found.keys() & SIDES.keys():
        sides = [{t["role"] for t in found[name][0]["traffic"] if t["node"] == node} for node in hosts_of(name)]
        bare = sides[1] if name.endswith("sender") else sides[0]
        assert bare == {"data NIC", "must stay silent"}, name
        assert sides[0] != sides[1] or "bridge" in name, name


def test_a_run_with_daemons_leaves_nothing_behind(two_nodes: tuple[Ended, Watch, Path]) -> None:
    result, watch, _ = two_nodes
    assert watch.most_processes > 20, "the watch saw no lab"
    assert len(watch.namespaces) > 20, "the watch saw no namespaces"
    assert watch.left(result.lab) == []


def test_on_one_node_docker_s_default_network_carries_tcp_and_shared_memory_needs_none(tmp_path: Path) -> None:
    study = write_study(
        tmp_path,
        "one",
        "{bare: {transport: tcp}, docker+docker-default: {transport: tcp}, "
        "shm: {runtime: bare, transport: shm}, docker shm: {runtime: docker, transport: shm}}",
        cluster="{lab: {nodes: 1, cores_per_node: 2}}",
        placements="[{nodes: 1, ranks_per_node: 2}]",
        workloads=KERNELS,
    )
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    with watch.looking(f"s{process.pid}"):
        result = ended(process)
    found = by_environment(tmp_path / "results" / "one")
    assert set(found) == {"bare", "docker+docker-default", "shm", "docker shm"}
    for name, (trial,) in found.items():
        assert outcome(trial) == "Completed", (name, trial["outcome"], result.stderr)
        first, second = trial["ranks"]
        assert first["host"] == second["host"]
        assert not set(first["cpus"]) & set(second["cpus"])
        assert sum(t["tx_bytes"] for t in trial["traffic"] if t["role"] != "must stay silent") < PAYLOAD, name
    assert watch.left(result.lab) == []


def test_ranks_tell_what_of_their_node_they_can_open_and_write(two_nodes: tuple[Ended, Watch, Path]) -> None:
    rights = {name: trial["ranks"][0]["rights"] for name, (trial,) in by_environment(two_nodes[2]).items()}
    words = {name: (surroundings.devices(each), surroundings.mounts(each)) for name, each in rights.items()}
    assert words["bare"][0].startswith("all of the node's (")
    assert words["bare"][1] == "the node's: /"
    assert words["bare+image"][0] == words["bare"][0]
    assert words["bare+image"][1].startswith("root read-only; own: ")
    for name in rights.keys() & CARRIERS.keys():
        if name.startswith("docker"):
            assert words[name][0] == "the usual"
            assert words[name][1].startswith("own: /; the node's: /etc/hostname")
    assert {told["setuid"] for told in rights.values()} == {"none"}
