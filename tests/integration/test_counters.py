"""What is planted on a node shows in the counters of its place, and in the facts of its data path."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.live import live, outcome, trials, write_study
from integration.node_state import send
from integration.studies import watched
from nodes import make_node
from tare.system.counters import monitor
from tare.system.counters.reader import Reader
from tare.system.counters.values import HostWatch
from tare.system.node import Watch

pytestmark = live("cni", "ethtool", "docker")

KERNELS = "{micro: {time_limit: 300s, kernels: [{bw: {message_bytes: 1MiB, window: 8, iterations: 3, warmup: 1}}]}}"
ENVIRONMENTS = (
    "{bare+bridge: , slow: {runtime: bare, network: bridge, link: {rate: 100Mbit}}, "
    "filtered: {runtime: bare, network: bridge, link: {br_netfilter: true}}, docker+bridge: }"
)
QUOTA = 0.05
COMPUTE = "{compute: {time_limit: 300s, kernels: [{halo: {message_bytes: 8KiB, iterations: 10000}}]}}"
QUOTAS = f"[{{nodes: 1, ranks_per_node: 1}}, {{nodes: 1, ranks_per_node: 1, cpus_per_container: {QUOTA}}}]"
Found = dict[tuple[str, str], dict[str, Any]]
SHORT_QUEUE = "tbf rate 100mbit burst 32kb limit 20kb"
SENT_BYTES = 4 << 20


def ran(folder: Path, environments: str, **keys: str) -> Found:
    """Run a study; return the trial of each placement and environment."""
    result, watch = watched(write_study(folder, "counters", environments, **keys))
    assert watch.left(result.lab) == []
    found = {}
    for trial in trials(folder / "results" / "counters"):
        _, placement, environment = trial["key"]["cell"].split(" / ")
        assert outcome(trial) == "Completed", (trial["key"], trial["outcome"], result.stderr)
        found[placement, environment] = trial
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the trial of each environment."""
    if not Path("/proc/sys/net/bridge").exists():
        pytest.skip("this machine cannot: br_netfilter is not loaded")
    every = ran(tmp_path_factory.mktemp("counters"), ENVIRONMENTS, workloads=KERNELS)
    return {environment: trial for (_, environment), trial in every.items()}


def of_hosts(trial: dict[str, Any], name: str) -> float:
    """Return the growth of a counter, summed over hosts."""
    places = {place: values for place, values in trial["node_counters"].items() if not place.startswith("machine ")}
    return float(sum(values.get(name, 0) for values in places.values()))


def test_a_queue_that_holds_packets_back_shows_in_its_overlimits(found: dict[str, dict[str, Any]]) -> None:
    slow, fast = found["slow"], found["bare+bridge"]
    assert of_hosts(slow, "qdisc_overlimits") > 0 == of_hosts(fast, "qdisc_overlimits")
    assert any("tbf" in text for text in slow["facts"].values())


def test_connections_that_a_node_tracks_are_entries(found: dict[str, dict[str, Any]]) -> None:
    tracked, untracked = found["docker+bridge"], found["bare+bridge"]
    assert of_hosts(tracked, "conntrack_entries") > 0 == of_hosts(untracked, "conntrack_entries")
    assert (tracked["facts"]["conntrack"], untracked["facts"]["conntrack"]) == ("on", "off")
    assert found["filtered"]["facts"]["br_netfilter"].startswith("on for ")
    assert untracked["facts"]["br_netfilter"] == "off"


def test_ranks_report_what_they_used_and_the_machine_is_a_place(found: dict[str, dict[str, Any]]) -> None:
    trial = found["docker+bridge"]
    for name in ("voluntary_switches", "on_cpu_s", "TcpOutSegs"):
        assert of_hosts(trial, name) > 0, name
    assert trial["node_counters"]["machine localhost"]["softnet_processed"] > 0
    assert trial["node_counters"]["machine localhost"]["context_switches"] > 0
    assert (trial["facts"]["seccomp"], trial["facts"]["path"]) == ("filter, filters 1", "veth, veth, bridge")
    assert "unread counters" not in trial["facts"]


def test_a_quota_shows_in_throttled_time_and_in_the_facts(tmp_path: Path) -> None:
    every = ran(tmp_path, "[bare, docker+bridge]", workloads=COMPUTE, placements=QUOTAS, cluster="{lab: {nodes: 1}}")
    assert len(every) == 4
    for (placement, environment), trial in every.items():
        is_limited = "CPU" in placement
        assert (of_hosts(trial, "throttled_s") > 0) == is_limited, (placement, environment)
        assert (of_hosts(trial, "throttled_periods") > 0) == is_limited, (placement, environment)
        assert trial["facts"].get("cpu_quota") == (str(QUOTA) if is_limited else None)


@contextmanager
def two_namespaces() -> Iterator[tuple[int, int]]:
    """Keep two network namespaces connected by a veth pair, 10.99.0.1 and 10.99.0.2."""
    waits = ["unshare", "--net", "sh", "-c", "echo; read end"]
    held = [subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        pids = [process.pid for process in held]
        assert [process.stdout.read(1) for process in held if process.stdout] == [b"\n"] * 2
        first, second = (f"nsenter --net=/proc/{pid}/ns/net" for pid in pids)
        for line in (
            f"{first} ip link add pod0 type veth peer name pod1 netns /proc/{pids[1]}/ns/net",
            f"{first} ip address add 10.99.0.1/24 dev pod0",
            f"{second} ip address add 10.99.0.2/24 dev pod1",
            f"{first} ip link set pod0 up",
            f"{second} ip link set pod1 up",
        ):
            subprocess.run(line.split(), check=True)
        yield pids[0], pids[1]
    finally:
        for process in held:
            process.communicate()


def test_packets_that_a_queue_loses_are_counted_where_it_is() -> None:
    with two_namespaces() as (sender, receiver):
        host = HostWatch(
            node=make_node(pid=receiver), pid=sender, host="n0c0",
            watches=(Watch(pid=sender, interface="pod0", role="veth of the pod"),),
        )  # fmt: skip
        reader = Reader([host])
        try:
            start = reader.read()
            send(sender, receiver, "10.99.0.2", SENT_BYTES)
            clean = reader.read()
            at = f"nsenter --net=/proc/{sender}/ns/net tc qdisc add dev pod0 root {SHORT_QUEUE}"
            subprocess.run(at.split(), check=True)
            planted = reader.read()
            send(sender, receiver, "10.99.0.2", SENT_BYTES)
            end = reader.read()
        finally:
            reader.close()
    assert monitor.by_place(start, clean)["n0c0"].get("qdisc_drops", 0) == 0
    lost = monitor.by_place(planted, end)["n0c0"]
    assert lost["qdisc_drops"] >= 1
    assert lost["TcpRetransSegs"] >= 1
    assert "TcpRetransSegs" not in monitor.by_place(planted, end).get("n0", {}), "no rank is in the node's namespace"
