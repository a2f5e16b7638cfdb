"""flannel's three backends and canal: what they make, what they say where they fail, and that nothing of them is left.

That MPI's traffic goes their way is held in test_networks_contract.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.live import (
    Watch,
    ended,
    lab_site,
    live,
    pids_of,
    start,
    trials,
    wait_for,
    write_study,
)
from integration.studies import KERNELS
from integration.test_leftovers import interfaces
from tare.cluster.lab_site import LabSite
from tare.deploy.hosts import Deployed
from tare.deploy.pods import deployed
from tare.errors import InfrastructureError
from tare.host.namespaces import netlink
from tare.host.process import run
from tare.model import Environment, Link, Placement
from tare.networks import flannel
from tare.node_service import clean
from tare.node_service.order import Files
from tare.services import etcd

CANNOT = "this machine cannot: "
pytestmark = [
    *live("cni", "etcd", "flannel", "iptables", "nftables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

NIC = "data NIC under flannel"
MTU = {"flannel": 1450, "flannel-host-gw": 1500, "flannel-udp": 1472, "canal": 1450}


# --- one environment in a lab of its own ----------------------------------------------------------------------------


@contextmanager
def up(network: str, folder: Path) -> Iterator[tuple[LabSite, Deployed]]:
    environment = Environment(name=network, runtime="bare", network=network)
    with (
        lab_site(nics=2) as site,
        deployed(site, environment, Placement(), slot=0, nic=1, files=Files(host_prefix=folder)) as one,
    ):
        yield site, one


def stack_of(one: Deployed, host: int) -> int:
    """Return a process in the stack of a host: the one whose NIC is watched."""
    return next(w.pid for w in one.sides[host].endpoint.watches if w.role == NIC)


def argv_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    except OSError:  # it has ended meanwhile
        return [""]


@pytest.mark.parametrize("network", MTU)
def test_flanneld_connects_pods_that_ping_each_other_and_everything_is_given_back(network: str, tmp_path: Path) -> None:
    environment = Environment(name=network, runtime="bare", network=network)
    files = Files(host_prefix=tmp_path)
    watch = Watch()
    with lab_site(nics=2) as site:
        before = [interfaces(node.pid) for node in site.nodes]
        with deployed(site, environment, Placement(), slot=0, nic=1, files=files) as one:
            first, second = one.sides
            assert first.endpoint.mtu == MTU[network]
            assert one.subnet == str(flannel.NETWORK)
            largest = str(MTU[network] - 28)
            run(
                (
                    *first.pod.enter,
                    "ping",
                    "-c",
                    "3",
                    "-i",
                    "0.2",
                    "-W",
                    "2",
                    "-M",
                    "do",
                    "-s",
                    largest,
                    second.endpoint.address,
                ),
                timeout_s=10,
            )
            for host in (0, 1):
                during = interfaces(site.nodes[host].pid)
                assert "data1" not in during
                assert during["data0"] == before[host]["data0"]
                assert "flannel.1" not in during, "the node's own stack was touched"
                assert "data1" in interfaces(stack_of(one, host))
            names = {Path(argv_of(pid)[0]).name for pid in pids_of(site.name)}
            assert {"flanneld", "etcd"} <= names
            if network == "canal":
                rules = run(("nsenter", f"--net=/proc/{stack_of(one, 0)}/ns/net", "nft", "list", "ruleset")).stdout
                assert "chain cali-fw-veth" in rules
                assert "ct state established,related accept" in rules
        wait_for(lambda: [interfaces(node.pid) for node in site.nodes] == before, "whole NIC", 5)
        names = {Path(argv_of(pid)[0]).name for pid in pids_of(site.name)}
        assert not names & {"flanneld", "etcd"}
        for node in site.nodes:
            assert not list(Path(f"/proc/{node.pid}/root/run").glob("tare-*"))
    assert watch.left(site.name) == []


def test_a_link_of_its_own_is_set_where_the_nic_is_and_taken_back(tmp_path: Path) -> None:
    link = Link(mtu=9000, offloads=("tso=off",))
    environment = Environment(name="jumbo", runtime="bare", network="canal", link=link)
    with lab_site(nics=2) as site:
        before = [interfaces(node.pid) for node in site.nodes]
        with deployed(site, environment, Placement(), slot=0, nic=1, files=Files(host_prefix=tmp_path)) as one:
            first, second = one.sides
            assert first.endpoint.mtu == 8950
            assert first.endpoint.facts["interface data1"] == "mtu 9000, tso off"
            ping = ("ping", "-c", "3", "-i", "0.2", "-W", "2", "-M", "do", "-s", "8922", second.endpoint.address)
            run((*first.pod.enter, *ping), timeout_s=10)
        wait_for(lambda: [interfaces(node.pid) for node in site.nodes] == before, "whole NIC", 5)


def test_the_rules_and_routes_of_flannel_are_in_a_stack_of_its_own(tmp_path: Path) -> None:
    with up("flannel", tmp_path) as (site, one):
        inside = stack_of(one, 0)

        def rules(pid: int) -> str:
            return run(("nsenter", f"--net=/proc/{pid}/ns/net", "iptables-save")).stdout

        wait_for(lambda: '-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD' in rules(inside), "rule")
        assert "FLANNEL" not in rules(site.nodes[0].pid)
        with netlink(inside) as route:
            found = {f"{entry.get_attr('RTA_DST')}/{entry['dst_len']}" for entry in route.get_routes(family=2)}
        other = one.sides[1].endpoint.address.rsplit(".", 1)[0]
        assert f"{other}.0/24" in found


@pytest.mark.parametrize("victim", ["flanneld", "etcd"])
def test_a_daemon_that_is_killed_is_named(victim: str, tmp_path: Path) -> None:
    with up("flannel-host-gw", tmp_path) as (site, one):
        assert one.ended() is None
        for pid in pids_of(site.name):
            if Path(argv_of(pid)[0]).name == victim:
                os.kill(pid, signal.SIGKILL)
        reason = wait_for(one.ended, "end of the daemon", 5)
    assert reason in [f"{victim} on {node} has ended" for node in (("n0", "n1") if victim == "flanneld" else ("n0",))]


def test_a_flanneld_that_does_not_come_up_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"Network": str(flannel.NETWORK), "Backend": {"Type": "nonsense"}}
    monkeypatch.setattr(flannel, "network_config", lambda _: wrong)
    with (
        pytest.raises(InfrastructureError, match=r"(?s)flanneld on n[01] exited without a subnet: .*nonsense") as told,
        up("flannel", tmp_path),
    ):
        pass
    assert len(str(told.value)) < 1000


def test_a_flanneld_that_hangs_is_told_with_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flannel, "LIMIT_S", 2.0)
    monkeypatch.setattr(etcd.EtcdStore, "put", lambda *_: None)
    with (
        pytest.raises(InfrastructureError, match=r"(?s)still runs without a subnet after 2 s: .*onfig"),
        up("flannel", tmp_path),
    ):
        pass


def test_an_etcd_that_does_not_start_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd, "command", lambda *_, **__: ("/bin/sh", "-c", "echo no room >&2; exit 1"))
    with (
        pytest.raises(InfrastructureError, match="etcd on n0 exited without an answer: no room"),
        up("flannel", tmp_path),
    ):
        pass


def test_a_run_that_is_interrupted_while_flannel_comes_up_undoes_everything(tmp_path: Path) -> None:
    study = write_study(tmp_path, "cut", ["bare", "bare+flannel", "bare+canal"], workloads=KERNELS)
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"

    def coming() -> bool:
        watch.look(name)
        return "etcd" in {Path(argv_of(pid)[0]).name for pid in pids_of(name)} or process.poll() is not None

    wait_for(coming, "etcd")
    os.kill(process.pid, signal.SIGINT)
    result = ended(process, 30)
    assert result.status == 130, result.stderr
    assert "Traceback" not in result.stderr
    assert watch.left(name) == []


@pytest.mark.alone
def test_daemons_of_a_killed_run_are_found_and_ended(tmp_path: Path) -> None:
    study = write_study(
        tmp_path, "dead", ["bare", "bare+flannel"], repetition="{rounds: 40, max_rounds: 40}", workloads=KERNELS
    )
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    wait_for(lambda: trials(tmp_path / "results" / "dead") or process.poll() is not None, "trial", 60)
    watch.look(name)
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    names = {Path(argv_of(pid)[0]).name for pid in pids_of(name)}
    assert {"flanneld", "etcd"} <= names, "nothing was left: the test proves nothing"
    clean.remove_lab(name)  # as `tare clean` and the next run do it, sparing the labs of others who test here
    wait_for(lambda: not pids_of(name), "end of the processes", 5)
    assert watch.left(name) == []
