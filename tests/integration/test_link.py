"""A link is set as a study says, its effect is seen in the packets, and all of it is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from integration.live import by_environment, lab_site, live, outcome, write_study
from integration.node_state import send
from integration.studies import watched
from tare.errors import InfrastructureError
from tare.model import Link, Tracking
from tare.networks.wiring import link
from tare.system.namespaces import inside_network
from tare.system.node import Endpoint, Node, Pod
from tare.system.process import run

pytestmark = live("cni", "ethtool", "nftables")

BYTES = 1 << 20
LATENCY = f"{{latency: {{message_bytes: {BYTES}, iterations: 20, warmup: 2}}}}"
KERNELS = f"{{micro: {{time_limit: 300s, kernels: [{LATENCY}]}}}}"
PAYLOAD = BYTES * 22
LINKS = {
    "offloads off": "offloads: off",
    "jumbo": "mtu: 9000, offloads: off",
    "tracked": "conntrack: track",
    "filtered": "br_netfilter: true",
    "slow": "rate: 1Gbit",
    "spread": "rps: all",
}
Found = tuple[dict[str, Any], list[str], str]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("link")
    if not Path("/proc/sys/net/bridge").exists():
        LINKS.pop("filtered")
    listed = [f"{name}: {{runtime: bare, network: bridge, link: {{{more}}}}}" for name, more in LINKS.items()]
    listed += [
        "host jumbo: {runtime: bare, link: {mtu: 9000}}",
        "direct jumbo: {runtime: bare, network: direct, link: {mtu: 9000}}",
    ]
    path = write_study(folder, "links", f"{{bare+bridge: , {', '.join(listed)}}}", workloads=KERNELS)
    result, watch = watched(path)
    found = {name: each[0] for name, each in by_environment(folder / "results" / "links").items()}
    return found, watch.left(result.lab), result.stderr


def packets(trial: dict[str, Any]) -> int:
    """Return the packets that the first node's pod sent, each of a megabyte message's about as large as it can be."""
    return next(int(item["tx_packets"]) for item in trial["traffic"] if item["role"] == "veth of the pod")


def test_every_link_runs_and_is_recorded(study: Found) -> None:
    found, _, stderr = study
    assert {*LINKS, "bare+bridge", "host jumbo", "direct jumbo"} == set(found), stderr
    for name, trial in found.items():
        assert outcome(trial) == "Completed", (name, trial["outcome"])
    facts = found["bare+bridge"]["facts"]
    assert (facts["mtu"], facts["path"], facts["qdisc"]) == ("1500", "veth, veth, bridge", "noqueue")
    assert not [name for name in facts if name.startswith("interface")], "nothing was set"
    for name in ("jumbo", "host jumbo", "direct jumbo"):
        assert found[name]["facts"]["mtu"] == "9000", name
    assert found["jumbo"]["facts"]["interface eth0"] == "mtu 9000, gro off, gso off, tso off"
    assert "tbf" in " ".join(found["slow"]["facts"].values())
    assert found["tracked"]["facts"]["conntrack"] == "track in the pod"
    assert "rps " in found["spread"]["facts"]["interface eth0 of n0"], "each node has cores of its own"


def test_offloads_and_mtu_decide_how_many_packets_a_message_is(study: Found) -> None:
    found = study[0]
    assert packets(found["bare+bridge"]) < PAYLOAD / 2000, "larger than its MTU: two segments, on a busy machine"
    assert packets(found["offloads off"]) > PAYLOAD / 1500
    assert PAYLOAD / 9000 < packets(found["jumbo"]) < PAYLOAD / 4000


def test_frames_of_one_bridge_pass_the_packet_filter_and_those_of_another_do_not(study: Found) -> None:
    if "filtered" not in LINKS:
        pytest.skip("this machine cannot: br_netfilter is not loaded")
    assert study[0]["filtered"]["facts"]["br_netfilter"].startswith("on for tarebr-data")


def test_nothing_is_left_behind(study: Found) -> None:
    assert study[1] == []


# --- on a node, by hand -------------------------------------------------------------------------------------------


def state(node: Node) -> list[str]:
    """Return all that a link can change of a NIC, as the programs tell it."""
    enter = ("nsenter", f"--net=/proc/{node.pid}/ns/net", "--")
    looks = [("ethtool", "-k", "data0"), ("tc", "qdisc", "show", "dev", "data0"), ("nft", "list", "ruleset")]
    said = [run((*enter, *look)).stdout for look in looks]
    masks = "mount -t sysfs tare /sys && cat /sys/class/net/data0/mtu /sys/class/net/data0/queues/rx-*/rps_cpus"
    return [*said, run((*enter, "unshare", "--mount", "--", "/bin/sh", "-c", masks)).stdout]


@contextmanager
def all_set(node: Node, wanted: Link) -> Iterator[Endpoint]:
    pod = Pod(name="p", node=node, runtime="bare", pid=node.pid, enter=(), group=node.group)
    nic = node.nics[0]
    endpoint = Endpoint(address=nic.address, prefix=nic.prefix, interface=nic.name, mtu=nic.mtu)
    with ExitStack() as stack:
        own = stack.enter_context(link.nic_set(node, nic, wanted))
        yield stack.enter_context(link.link_set(node, own, pod, endpoint, wanted))


def test_all_that_is_set_is_taken_back_also_after_an_error() -> None:
    wanted = Link(
        mtu=1400, offloads=("gro=on", "gso=off", "tso=off"), rps="all", rate_bps=10**9, conntrack=Tracking.NOTRACK
    )
    with lab_site() as site:
        node = site.nodes[0]
        before = state(node)
        with suppress(KeyboardInterrupt), all_set(node, wanted) as endpoint:
            during = state(node)
            raise KeyboardInterrupt
        assert all(one != other for one, other in zip(before, during, strict=True))
        assert endpoint.facts["interface data0"].startswith("mtu 1400, gro on, gso off, tso off, rps ")
        assert state(node) == before


@pytest.mark.parametrize(("tracking", "entries"), [(Tracking.TRACK, 1), (Tracking.NOTRACK, 0)])
def test_connections_are_tracked_or_not(tracking: Tracking, entries: int) -> None:
    with lab_site() as site, all_set(site.nodes[0], Link(conntrack=tracking)):
        first, second = site.nodes
        send(first.pid, second.pid, second.nics[0].address, 1000)
        with inside_network(site.nodes[0].pid):
            assert (
                int(Path("/proc/thread-self/net/stat/nf_conntrack").read_text().split("\n")[1].split()[0], 16)
                == entries
            )
        enter = ("nsenter", f"--net=/proc/{site.nodes[0].pid}/ns/net", "--")
        rules = run((*enter, "nft", "list", "ruleset")).stdout
        assert ("notrack" in rules) == (tracking is Tracking.NOTRACK)
        assert "packets 0 " not in rules, rules


def test_an_offload_that_is_fixed_is_told(tmp_path: Path) -> None:
    wanted = Link(offloads=("lro=on",))
    with (
        lab_site() as site,
        pytest.raises(InfrastructureError, match="data0 cannot have lro on: it is off"),
        all_set(site.nodes[0], wanted),
    ):
        pass
