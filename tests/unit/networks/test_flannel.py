"""flannel, canal, etcd and Docker's overlay with a store: what they are told and what they say; nothing is started."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes import make_node
from tare.errors import InfrastructureError, RefusedError
from tare.host.process import Result
from tare.model import Environment
from tare.networks import NETWORKS, canal, flannel, overlay_etcd
from tare.networks.flannel import TAKEN, Flannel, Lease, parse_subnets, read_lease
from tare.node import Nic
from tare.plan import composition
from tare.services import etcd
from tare.services.daemons import Place
from tare.services.docker import cluster_options, daemons
from tare.wiring import host_stack

NODE = make_node(1, pid=7)
LEASE = Lease(gateway=ipaddress.IPv4Interface("10.217.35.1/24"), mtu=1450)
NAMES = {"flannel": "vxlan", "flannel-host-gw": "host-gw", "flannel-udp": "udp", "canal": "vxlan"}


def test_etcd_and_docker_are_told_where_the_store_is_and_the_api_it_has() -> None:
    argv = etcd.command("/x/etcd", "10.213.129.1", "/run/tare-f", version_2=False)
    told = dict(zip(argv[1::2], argv[2::2], strict=True))
    assert told["--listen-client-urls"] == told["--advertise-client-urls"] == "http://10.213.129.1:2379"
    assert told["--listen-peer-urls"] == told["--initial-advertise-peer-urls"] == "http://10.213.129.1:2380"
    assert told["--initial-cluster"] == f"{told['--name']}=http://10.213.129.1:2380"
    assert told["--data-dir"] == "/run/tare-f/etcd"
    assert "--enable-v2=true" in etcd.command("/x/etcd", "10.213.0.1", "/run/tare-f", version_2=True)
    assert cluster_options("http://10.213.0.1:2379", NODE) == (
        "--cluster-store", "etcd://10.213.0.1:2379", "--cluster-advertise", "data0:2376",
    )  # fmt: skip
    assert cluster_options("", NODE) == ()


def test_what_has_no_store_or_needs_another_study_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="Swarm"), daemons((NODE,), log_folder=tmp_path, swarm=True, store=True):
        pass
    monkeypatch.setattr(etcd, "OWN", tmp_path)
    monkeypatch.setattr(overlay_etcd, "find", lambda _: "/x/dockerd")
    answer = Result(argv=(), status=0, stdout="Docker version 27.1.1, build 1\n", stderr="", elapsed_s=0)
    monkeypatch.setattr(overlay_etcd, "run", lambda *_, **__: answer)
    assert "use overlay" in str(NETWORKS["overlay-etcd"].probe())

    def of(*networks: str) -> list[Environment]:
        return [Environment(name=f"docker+{name}", runtime="docker", network=name) for name in networks]

    assert composition.apart(of("host", "overlay-etcd")) == {}
    assert composition.apart(of("host", "overlay")) == {}
    reasons = composition.apart(of("overlay", "host", "overlay-etcd"))
    assert list(reasons) == ["docker+overlay-etcd"]
    assert "Swarm" in reasons["docker+overlay-etcd"]


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", None),
        ("Docker version 19.03.15, build 99e3ed8", None),
        ("", None),
        ("Docker version 23.0.0, build d7573ab", "Docker 23.0.0 no longer has --cluster-store: use overlay"),
        ("Docker version 29.1.3", "Docker 29.1.3 no longer has --cluster-store: use overlay"),
    ],
)
def test_a_docker_without_a_store_is_recognised_by_its_version(version: str, reason: str | None) -> None:
    assert overlay_etcd.probe_version(version) == reason


@pytest.mark.parametrize(("name", "backend"), NAMES.items())
def test_each_level_is_a_backend_of_flannel_with_flannel_s_own_ports_and_numbers(name: str, backend: str) -> None:
    assert NETWORKS[name].backend == backend  # type: ignore[attr-defined]
    assert flannel.network_config(backend) == {
        "Network": "10.217.0.0/16", "SubnetLen": 24, "Backend": {"Type": backend},
    }  # fmt: skip


def test_flanneld_is_told_its_store_and_its_files_are_read() -> None:
    argv = flannel.command("/x/flanneld", "http://10.213.129.1:2379", "data3", "/run/tare-f/subnet.env")
    assert argv[0] == "/x/flanneld"
    assert {
        "-etcd-endpoints=http://10.213.129.1:2379", "-iface=data3", "-subnet-file=/run/tare-f/subnet.env",
        "-ip-masq=false",
    } <= set(argv)  # fmt: skip
    assert not any("kube" in token for token in argv)
    text = "FLANNEL_NETWORK=10.217.0.0/16\nFLANNEL_SUBNET=10.217.35.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n"
    assert read_lease(text) == LEASE
    for part in ("", "FLANNEL_SUBNET=10.217.35.1/24\n", "FLANNEL_SUBNET=10.217\nFLANNEL_MTU=1450", "nonsense"):
        assert read_lease(part) is None
    log = "I1121 1 udp_network_amd64.go:99] Watching\nI1121 1 x.go:1] Subnet added: 10.217.9.0/24\nSubnet added:"
    assert parse_subnets(log) == {"10.217.9.0/24"}
    place = Place(node=NODE, pid=7, folder="/run/tare-flannel-s1-2")
    assert place.path("subnet.env") == Path("/proc/7/root/run/tare-flannel-s1-2/subnet.env")


def test_pods_of_a_node_have_addresses_after_the_bridge_s_and_are_wired() -> None:
    addresses = [str(LEASE.address(number)) for number in range(253)]
    assert addresses[0] == "10.217.35.2/24"
    assert addresses[-1] == "10.217.35.254/24"
    assert len(set(addresses)) == 253
    with pytest.raises(InfrastructureError, match="no address for pod 254"):
        LEASE.address(253)
    config = NETWORKS["flannel"].plug_in(LEASE, LEASE.address(0))  # type: ignore[attr-defined]
    assert (config["type"], config["isGateway"], config["ipMasq"], config["mtu"]) == ("bridge", True, False, 1450)
    assert config["ipam"] == {
        "type": "static",
        "addresses": [{"address": "10.217.35.2/24", "gateway": "10.217.35.1"}],
        "routes": [{"dst": "10.217.0.0/16"}],
    }
    json.dumps(config)


def test_what_flannel_lacks_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(flannel, "is_real_root", lambda: False)
    assert "root" in str(flannel.probe_programs("vxlan"))
    monkeypatch.setattr(flannel, "is_real_root", lambda: True)
    monkeypatch.setattr(flannel, "OWN", tmp_path / "nowhere")
    monkeypatch.setattr(flannel, "find", lambda _: None)
    assert flannel.probe_programs("vxlan") == "flanneld is not installed: run tools/networks flannel"
    monkeypatch.setattr(flannel, "OWN", tmp_path)
    monkeypatch.setattr(flannel, "BRIDGE_NETFILTER", tmp_path / "nowhere")
    assert "modprobe br_netfilter" in str(flannel.probe_programs("vxlan"))
    monkeypatch.setattr(flannel, "BRIDGE_NETFILTER", tmp_path)
    monkeypatch.setattr(flannel, "TUN", tmp_path / "nowhere")
    assert "modprobe tun" in str(flannel.probe_programs("udp"))
    monkeypatch.setattr(etcd, "OWN", tmp_path / "nowhere")
    monkeypatch.setattr(etcd, "find", lambda _: None)
    assert flannel.probe_programs("vxlan") == "etcd is not installed: run tools/networks etcd"
    monkeypatch.setattr(etcd, "OWN", tmp_path)
    assert flannel.probe_programs("vxlan") is None


@pytest.mark.parametrize("name", NAMES)
def test_one_side_cannot_be_bare(name: str) -> None:
    assert not NETWORKS[name].reaches_outside


def test_stacks_of_environments_have_addresses_of_their_own_on_the_control_network() -> None:
    assert host_stack.control_address(NODE, "s12-0") == "10.213.128.2"
    assert host_stack.control_address(NODE, "s12-3") == "10.213.131.2"
    with pytest.raises(InfrastructureError, match="addresses for only 120"):
        host_stack.control_address(NODE, "s12-120")


def test_pods_of_canal_are_routed_through_chains_of_their_own() -> None:
    config = NETWORKS["canal"].plug_in(LEASE, LEASE.address(1))  # type: ignore[attr-defined]
    assert (config["type"], config["mtu"]) == ("ptp", 1450)
    assert config["ipam"]["addresses"][0]["address"] == "10.217.35.3/24"
    text = canal.rules(["veth1", "veth2"])
    for name in ("veth1", "veth2"):
        for kind, word in (("fw", "iifname"), ("tw", "oifname")):
            assert f"  chain cali-{kind}-{name} {{" in text
            assert f'    {word} "{name}" goto cali-{kind}-{name}\n' in text
    assert 'elements = { "veth1", "veth2" }' in text
    assert text.count("{") == text.count("}")
    leaving = text.partition("chain cali-fw-veth1 {")[2].partition("}")[0].split("\n")
    order = [line.strip() for line in leaving if line.strip()]
    assert order[:2] == ["ct state established,related accept", "ct state invalid drop"]
    assert order[-3:] == ["jump cali-pro-default", "meta mark & 0x00010000 == 0x00010000 return", "drop"]
    assert "udp dport 4789 drop" in order
    assert "ip protocol 4 drop" in order


@pytest.mark.parametrize(("endings", "started"), [((None,), 1), ((TAKEN, None), 2), ((TAKEN, TAKEN, None), 3)])
def test_a_flanneld_that_drew_another_s_subnet_is_started_again(
    monkeypatch: pytest.MonkeyPatch, endings: tuple[str | None, ...], started: int
) -> None:
    network, begun = drawing(monkeypatch, endings)
    assert network._lease() == LEASE
    assert len(begun) == started


@pytest.mark.parametrize("endings", [("no route to the store",), (TAKEN, TAKEN, TAKEN)])
def test_a_flanneld_that_ends_otherwise_or_again_is_an_error(
    monkeypatch: pytest.MonkeyPatch, endings: tuple[str | None, ...]
) -> None:
    network, begun = drawing(monkeypatch, endings)
    with pytest.raises(InfrastructureError, match=str(endings[-1])):
        network._lease()
    assert len(begun) == len(endings)


def drawing(monkeypatch: pytest.MonkeyPatch, endings: tuple[str | None, ...]) -> tuple[Flannel, list[Any]]:
    """Return a network whose flannelds end one after the other with these words; None: it gets its lease."""
    left, begun = list(endings), list[Any]()

    def wait_for(*_: object, **__: object) -> Lease:
        if words := left.pop(0):
            raise InfrastructureError(f"flanneld on n1 exited without a subnet: {words}")
        return LEASE

    @contextmanager
    def running(*_: object) -> Iterator[Any]:
        begun.append(SimpleNamespace(wait_for=wait_for))
        yield begun[-1]

    monkeypatch.setattr(flannel, "run_daemon", running)
    monkeypatch.setattr(flannel, "lend_nic", lambda *_: nullcontext())
    monkeypatch.setattr(Flannel, "place", SimpleNamespace(folder="/run/x"))
    network = Flannel("flannel", "vxlan")
    up = network.on_node(make_node(0), Nic(name="data0", address="10.0.0.1", prefix=24))
    up.__enter__()
    monkeypatch.setattr(network, "up", up, raising=False)
    return network, begun
