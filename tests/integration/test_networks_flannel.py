"""flannel's three backends and canal: what they make, what they say where they fail, and that nothing of them is left.

That pods reach each other and that MPI's traffic goes their way is in test_networks_contract.py.
"""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from integration import hostile_pod
from integration.live import Watch, ended, lab_site, live, pids_of, reached, start, trials, wait_for, write_study
from integration.node_state import are_as_before, argv_of, shown, state_of
from tare.agent import clean
from tare.clusters.lab_site import LabSite
from tare.daemons import certificate, etcd
from tare.errors import InfrastructureError
from tare.model import Environment, Link, Placement
from tare.networks import flannel
from tare.networks.wiring.host_stack import control_address
from tare.networks.wiring.ping import ping
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.system.namespaces import inside_network

CANNOT = "this machine cannot: "
pytestmark = [
    *live("cni", "etcd", "flannel", "iptables", "nftables"),
    pytest.mark.skipif(not flannel.BRIDGE_NETFILTER.exists(), reason=f"{CANNOT}br_netfilter is not loaded"),
]

MTU = {"flannel": 1450, "flannel-host-gw": 1500, "flannel-udp": 1472, "canal": 1450}


@pytest.fixture(scope="module")
def site() -> Iterator[LabSite]:
    watch = Watch()
    with lab_site(nics=2) as made:
        watch.look(made.name)
        yield made
    assert watch.left(made.name) == []


def up(site: LabSite, network: str, link: Link | None = None) -> AbstractContextManager[Deployed]:
    wanted = Environment(name=network, runtime="bare", network=network, link=link or Link())
    return deployed(site, wanted, Placement(), slot=0, nic=1, files=Files(host_prefix=Path("/")))


def stack_of(one: Deployed, host: int) -> int:
    """Return a process in the stack of a host: the one whose NIC is watched."""
    return next(w.pid for w in one.pods[host].endpoint.watches if w.role == "data NIC under flannel")


def programs(lab: str) -> set[str]:
    """Return the names of the programs of a lab."""
    return {Path(argv_of(pid)[0]).name for pid in pids_of(lab)}


@pytest.mark.parametrize("network", MTU)
def test_daemons_rules_and_routes_are_in_a_stack_of_their_own_and_everything_is_given_back(
    network: str, site: LabSite
) -> None:
    before = [state_of(node) for node in site.nodes]
    with up(site, network) as one:
        first, second = one.pods
        assert (first.endpoint.mtu, one.subnet) == (MTU[network], str(flannel.NETWORK))
        stack, node = stack_of(one, 0), site.nodes[0]
        during = state_of(node)
        assert during["links"].keys() == before[0]["links"].keys() - {"data1"}, "the node's own stack was touched"
        assert "data1" in shown(stack, "ip", "link")
        assert {"flanneld", "etcd"} <= programs(site.name)
        subnet = f"{second.endpoint.address.rsplit('.', 1)[0]}.0/24" if network != "flannel-udp" else one.subnet
        wait_for(lambda: subnet in shown(stack, "ip", "route"), "route to the other node's pods")
        if network == "canal":
            rules = shown(stack, "nft", "list", "ruleset")
            assert "chain cali-fw-veth" in rules
            assert "ct state established,related accept" in rules
        else:
            rule = '-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD'
            wait_for(lambda: rule in shown(stack, "iptables-save"), "rule")
        assert "FLANNEL" not in shown(node.pid, "iptables-save")
    are_as_before(site.nodes, before)
    assert not programs(site.name) & {"flanneld", "etcd"}
    assert not [left for each in site.nodes for left in Path(f"/proc/{each.pid}/root/run").glob("tare-*")]


def test_the_store_answers_who_has_its_certificate_and_nobody_else_on_the_control_network(
    site: LabSite, tmp_path: Path
) -> None:
    lease = '{"PublicIP":"10.214.1.66","BackendType":"host-gw"}'
    with up(site, "flannel-host-gw") as one:
        server = control_address(site.nodes[0], one.name)
        folder = f"run/tare-flannel-host-gw-{one.name}"
        own, other = (Path(f"/proc/{stack_of(one, host)}/root/{folder}") for host in (0, 1))
        assert (own / "tls.key").read_text() == (other / "tls.key").read_text()
        certificate.make(tmp_path, "/CN=tare", [server])
        stranger, known = certificate.context(tmp_path), certificate.context(other)
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        with inside_network(site.nodes[1].pid):
            for tls in (None, stranger):
                said = hostile_pod.ask(
                    server,
                    etcd.PORT,
                    "POST",
                    "/v3/kv/put",
                    hostile_pod.put(f"{flannel.PREFIX}/subnets/x", lease),
                    tls=tls,
                )
                assert said.startswith((hostile_pod.REFUSED, "400")), said
                assert hostile_pod.ask(server, etcd.PEER_PORT, "GET", "/members", tls=tls)[:3] in ("ref", "400")
            assert hostile_pod.ask(server, etcd.PORT, "GET", "/health", tls=known).startswith("200")


def test_a_link_of_its_own_is_set_where_the_nic_is_and_taken_back(site: LabSite) -> None:
    before = [state_of(node) for node in site.nodes]
    with up(site, "canal", Link(mtu=9000, offloads=("tso=off",))) as one:
        first, second = one.pods
        assert first.endpoint.mtu == 8950
        assert first.endpoint.facts["interface data1"] == "mtu 9000, tso off"
        wait_for(lambda: ping(first.pid, second.endpoint.address, packet_bytes=8950), "reply to a full packet")
    are_as_before(site.nodes, before)


@pytest.mark.parametrize("victim", ["flanneld", "etcd"])
def test_a_daemon_that_is_killed_is_named(victim: str, site: LabSite) -> None:
    with up(site, "flannel-host-gw") as one:
        assert one.ended() is None
        for pid in pids_of(site.name):
            if Path(argv_of(pid)[0]).name == victim:
                os.kill(pid, signal.SIGKILL)
        reason = wait_for(one.ended, "end of the daemon")
    assert reason in [f"{victim} on {node} has ended" for node in (("n0", "n1") if victim == "flanneld" else ("n0",))]


def test_daemons_that_do_not_come_up_are_told_with_the_end_of_their_log(
    site: LabSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [state_of(node) for node in site.nodes]
    wrong = {"Network": str(flannel.NETWORK), "Backend": {"Type": "nonsense"}}
    with monkeypatch.context() as changed:
        changed.setattr(flannel, "network_config", lambda _: wrong)
        exited = r"(?s)flanneld on n[01] exited without a subnet: .*nonsense"
        with pytest.raises(InfrastructureError, match=exited) as told, up(site, "flannel"):
            pass
        assert len(str(told.value)) < 1000
    with monkeypatch.context() as changed:
        changed.setattr(flannel, "LIMIT_S", 2.0)
        changed.setattr(etcd.EtcdStore, "put", lambda *_: None)
        hangs = "still runs without a subnet after 2 s"
        with pytest.raises(InfrastructureError, match=hangs), up(site, "flannel"):
            pass
    monkeypatch.setattr(etcd, "command", lambda *_, **__: ("/bin/sh", "-c", "echo no room >&2; exit 1"))
    with pytest.raises(InfrastructureError, match="etcd on n0 exited without an answer: no room"), up(site, "flannel"):
        pass
    are_as_before(site.nodes, before)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_daemons_of_a_run_that_is_cut_off_are_ended(number: signal.Signals, tmp_path: Path) -> None:
    study = write_study(
        tmp_path, "cut", ["bare", "bare+flannel", "bare+canal"], repetition="{rounds: 40, max_rounds: 40}"
    )
    watch = Watch()
    process = start("run", study, cwd=tmp_path)
    name = f"s{process.pid}"
    if number is signal.SIGKILL:
        reached(process, lambda: trials(tmp_path / "results" / "cut"), "trial")
    reached(process, lambda: "etcd" in programs(name), "etcd")
    watch.look(name)
    os.kill(process.pid, number)
    result = ended(process)
    if number is signal.SIGKILL:
        clean.remove_lab(name)  # as `tare clean` and the next run do it, sparing the labs of others who test here
        wait_for(lambda: not pids_of(name), "end of the processes")
    else:
        assert result.status == 130, result.stderr
        assert "Traceback" not in result.stderr
    assert watch.left(name) == []
