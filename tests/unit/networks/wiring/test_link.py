"""Links, user-mode networks and switches are made of commands that say what a study states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node, value
from tare.agent import geometry
from tare.model import Environment, Link, Placement, Sides, Tracking
from tare.networks import NETWORKS, ovs, pasta, slirp4netns, weave
from tare.networks.wiring import link, user_mode, vswitch
from tare.networks.wiring.plug import in_pod_subnet
from tare.study import parse
from tare.study.plan import composition
from tare.system.node import Endpoint, Nic, Watch

BARE = Environment(name="e", runtime="bare", network="bridge")

TOLD = """Features for data1:
rx-checksumming: on
tx-checksumming: on
	tx-checksum-ip-generic: on
scatter-gather: on
	tx-scatter-gather: on
tcp-segmentation-offload: off
	tx-tcp-segmentation: off
generic-segmentation-offload: on
generic-receive-offload: off
large-receive-offload: off [fixed]
"""


def stated(text: str) -> Link:
    entry = f"{{runtime: bare, image: true, link: {text}}}"
    study = f"environments: [bare, e: {entry}]\nworkloads: {{m: {{kernels: [barrier]}}}}\n"
    return parse(study).environments[1].link


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{mtu: 9000}", Link(mtu=9000)),
        ("{offloads: off}", Link(offloads=("gro=off", "gso=off", "tso=off"))),
        ("{offloads: {tso: off, gro: on}}", Link(offloads=("gro=on", "tso=off"))),
        ("{rps: all, delay: 1ms, rate: 1Gbit}", Link(rps="all", delay_s=1e-3, rate_bps=10**9)),
        ("{br_netfilter: true, conntrack: notrack}", Link(br_netfilter=True, conntrack=Tracking.NOTRACK)),
        ("{br_netfilter: false}", Link(br_netfilter=False)),
        ("{}", Link()),
    ],
)
def test_a_study_states_a_link(text: str, wanted: Link) -> None:
    assert (stated(text), bool(stated(text))) == (wanted, (text != "{}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{mtu: 60}", "at least 576"), ("{mtu: big}", "whole number"),
        ("{offloads: {tos: off}}", "unknown offload 'tos'; did you mean tso"),
        ("{offloads: {tso: maybe}}", "an offload is on or off"),
        ("{offloads: [tso]}", "offloads are off, on, or a mapping"), ("{rps: some}", "unknown value 'some'"),
        ("{conntrack: yes}", "allowed: track, notrack"), ("{rate: fast}", "not a link rate"),
        ("{speed: 1}", "unknown key 'speed'"),
    ],
)  # fmt: skip
def test_what_no_link_can_be_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(Exception, match=words) as raised:
        stated(text)
    assert ".e.link" in str(raised.value)


def test_links_are_told_to_tc_and_ethtool_in_their_words() -> None:
    assert link.ethtool_words(("gro=off", "tso=on")) == ("gro", "off", "tso", "on")
    assert link.features(TOLD) == {
        "tso": "off", "gso": "on", "gro": "off", "lro": "off [fixed]", "sg": "on", "tx": "on", "rx": "on",
    }  # fmt: skip
    begin = ("tc", "qdisc", "add", "dev", "data1")
    assert link.qdiscs(Link(), "data1") == ()
    assert link.qdiscs(Link(rate_bps=10**9), "data1") == (
        (*begin, "root", "handle", "1:", "tbf", "rate", "1000000000bit", "burst", "131072", "latency", "50ms"),
    )
    assert link.qdiscs(Link(delay_s=50e-6, rate_bps=10**10), "data1") == (
        (*begin, "root", "handle", "1:", "netem", "delay", "50us"),
        (
            *begin,
            "parent",
            "1:",
            "handle",
            "2:",
            "tbf",
            "rate",
            "10000000000bit",
            "burst",
            "1250000",
            "latency",
            "50ms",
        ),
    )
    tracked, untracked = (link.rules(each, "eth0") for each in (Tracking.TRACK, Tracking.NOTRACK))
    assert "notrack" not in tracked
    assert untracked.count("counter notrack;") == 2
    assert set(tracked.splitlines()) < set(untracked.splitlines())


@pytest.mark.parametrize(
    ("cores", "mask"),
    [((), "0"), ((0,), "1"), ((0, 1, 3), "b"), ((33,), "2,00000000"), ((31, 32, 64), "1,00000001,80000000")],
)
def test_a_mask_of_cores_is_written_as_in_sys(cores: tuple[int, ...], mask: str) -> None:
    assert link.mask_of(cores) == mask


@pytest.mark.parametrize(
    ("network", "wanted", "words"),
    [
        ("overlay", Link(mtu=9000), "overlay has no NIC of its own"),
        ("pasta", Link(mtu=9000), "pasta has no NIC of its own"),
        ("host", Link(conntrack=Tracking.TRACK), "which host lacks"),
        ("macvlan", Link(br_netfilter=True), "which macvlan lacks: use bridge"),
    ],
)
def test_a_link_that_a_network_cannot_have_is_refused_with_the_reason(network: str, wanted: Link, words: str) -> None:
    runtime = "docker" if network == "overlay" else "bare"
    given = replace(BARE, runtime=runtime, network=network, link=wanted)
    nodes = 1 if network == "pasta" else 2
    assert words in str(composition.refuse(given, Placement(nodes=nodes)))


@pytest.mark.parametrize("network", ["host", "bridge", "direct", "macvlan"])
def test_an_environment_with_a_link_has_a_nic_of_its_own(network: str) -> None:
    plain = replace(BARE, name="p", network="host")
    linked = replace(BARE, name="l", network=network, link=Link(mtu=9000))
    assert composition.refuse(linked, Placement()) is None
    slots = composition.nic_slots([(plain, Placement()), (linked, Placement())])
    assert list(slots.values()) == [0, 1]


def test_the_bare_side_has_the_same_nic_and_a_link_is_set_where_the_nic_is() -> None:
    wanted = Link(mtu=9000, offloads=("tso=off",), br_netfilter=True, conntrack=Tracking.TRACK)
    other = geometry.bare_side(replace(BARE, sides=Sides.SENDER, link=wanted))
    assert other.link == Link(mtu=9000, offloads=("tso=off",))
    nic = Nic(name="data1", address="10.214.1.2", prefix=24)
    node = make_node(1, nics=(nic,), pid=7)
    endpoint = Endpoint(address="10.217.3.2", prefix=16, interface="eth0", mtu=1450)
    assert link.where(node, nic, endpoint).pid == 7
    watches = (
        Watch(pid=5, interface="eth0", role="veth"),
        Watch(pid=9, interface="data1", role="data NIC under flannel"),
    )
    assert link.where(node, nic, replace(endpoint, watches=watches)).pid == 9


def test_what_kernels_and_switches_lack_is_told_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_kernel_takes", lambda *_: False)
    for wanted, words in [
        (Link(delay_s=1e-6), "delay is not supported by this kernel"),
        (Link(rate_bps=1), "rate is not supported by this kernel"),
        (Link(conntrack=Tracking.TRACK), "needs nf_tables"),
    ]:
        assert words in str(link.probe(wanted))
    monkeypatch.setattr(link, "find", lambda _: None)
    assert "apt-get install ethtool" in str(link.probe(Link(offloads=("tso=off",))))
    assert link.probe(Link(mtu=9000)) is None
    monkeypatch.setattr(vswitch, "is_real_root", lambda: False)
    assert "root" in str(vswitch.probe())
    monkeypatch.setattr(vswitch, "is_real_root", lambda: True)
    monkeypatch.setattr(vswitch, "program", lambda name: None)
    assert "apt-get install openvswitch-switch" in str(vswitch.probe())
    monkeypatch.setattr(vswitch, "program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(vswitch, "probe_module", lambda name: f"this kernel has no {name}")
    assert vswitch.probe() == "this kernel has no openvswitch"
    assert vswitch.probe("netdev") is None
    assert weave.Weave().probe() == ovs.Ovs().probe()
    assert ovs.Ovs("netdev").probe() is None


NIC = Nic(name="data0", address="10.214.0.3", prefix=24)


def test_pasta_and_slirp4netns_are_told_the_node_s_address_and_forward_nothing() -> None:
    argv = pasta.command("/usr/bin/pasta", NIC)
    assert (value(argv, "--address"), value(argv, "--netmask")) == ("10.214.0.3", "24")
    assert (value(argv, "--interface"), value(argv, "--ns-ifname")) == ("data0", "eth0")
    assert value(argv, "--gateway") == "10.214.0.254"
    assert {value(argv, f"--{kind}") for kind in ("tcp-ports", "udp-ports", "tcp-ns", "udp-ns")} == {"none"}
    assert {"--foreground", "--config-net", "--no-map-gw"} <= set(argv)
    argv = slirp4netns.command("/usr/bin/slirp4netns")
    assert {"--configure", "--disable-host-loopback", "--enable-seccomp", "--netns-type=path"} <= set(argv)
    assert argv[-2:] == (user_mode.NETNS, "eth0")


@pytest.mark.parametrize(("name", "package"), [("pasta", "passt"), ("slirp4netns", "slirp4netns")])
def test_what_is_missing_is_named_and_two_nodes_are_refused(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(user_mode, "is_real_root", lambda: True)
    monkeypatch.setattr(user_mode, "find", lambda program: None)
    assert NETWORKS[name].probe() == f"{name} is not installed: apt-get install {package}"
    monkeypatch.setattr(user_mode, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(user_mode, "TUN", tmp_path / "nowhere")
    assert "modprobe tun" in str(NETWORKS[name].probe())
    monkeypatch.setattr(user_mode, "TUN", tmp_path)
    assert NETWORKS[name].probe() is None
    monkeypatch.setattr(user_mode, "is_real_root", lambda: False)
    assert "needs root" in str(NETWORKS[name].probe())
    assert NETWORKS[name].refuse(1) is None
    assert "use" in str(NETWORKS[name].refuse(2))


FOLDER = Path("/run/x")


def test_daemons_bridges_and_tunnels_of_a_switch_are_told_what_they_need() -> None:
    for argv in (vswitch.server("ovsdb-server", str(FOLDER)), vswitch.switch("ovs-vswitchd", str(FOLDER))):
        assert not any("detach" in word for word in argv)
        assert any(word.startswith("--unixctl=/run/x/") for word in argv)
        assert any("unix:/run/x/db.sock" in word for word in argv)
    assert ovs.bridge("b", "system")[-2:] == ("datapath_type=system", "fail_mode=standalone")
    assert vswitch.vsctl("ovs-vsctl", FOLDER, ("show",)) == (
        "ovs-vsctl", "--db=unix:/run/x/db.sock", "--timeout=15", "show",
    )  # fmt: skip
    told = weave.tunnels("b", ["10.214.1.2", "10.214.1.3"])
    assert len(told) == 2
    for words, peer in zip(told, ("10.214.1.2", "10.214.1.3"), strict=True):
        assert words[:2] == ("add-port", "b")
        assert {f"options:remote_ip={peer}", "options:dst_port=6784", "type=vxlan"} <= set(words)
        assert words[-1] == "protected=true"
    assert len({words[2] for words in told}) == 2
    assert in_pod_subnet(Nic(name="data1", address="10.214.1.2", prefix=24)).cidr == "10.218.1.2/24"
