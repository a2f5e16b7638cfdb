"""Open vSwitch: command lines, names and what it says is missing; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.networks import ovs, weave
from tare.node import Nic
from tare.wiring import vswitch
from tare.wiring.plug import in_pod_subnet

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


def test_what_is_missing_is_told_in_the_order_in_which_it_is_brought(monkeypatch: pytest.MonkeyPatch) -> None:
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
