"""Open vSwitch for real, on the data path of its daemon: that of the kernel needs a module that few machines here have.

What is proven is the wiring: daemons, bridge, ports, pods that answer each other, and that nothing is left. How fast
it is, and that VXLAN works, only the kernel's data path can tell.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tare.networks
from integration.live import Watch, lab_site, live
from integration.node_state import are_as_before, reach_each_other, shown, state_of
from tare.model import Environment, Placement
from tare.networks.ovs import BRIDGE, Ovs
from tare.networks.wiring.vswitch import Vswitch
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files

pytestmark = live("nftables", "openvswitch")


def test_pods_answer_each_other_through_open_vswitch_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tare.networks, "NETWORKS", {**tare.networks.NETWORKS, "ovs": Ovs("netdev")})
    wanted = Environment(name="it", runtime="bare", network="ovs")
    watch = Watch()
    with lab_site(nics=2) as site:
        watch.look(site.name)
        before = [state_of(node) for node in site.nodes]
        with deployed(site, wanted, Placement(), slot=0, nic=1, files=Files(host_prefix=Path("/"))) as up:
            up.wait_until_ready()
            first, _ = up.pods
            assert first.endpoint.address == "10.214.1.1"
            reach_each_other(up)
            (switch,) = Path(f"/proc/{site.nodes[0].pid}/root/run").glob("tare-ovs-*")
            assert {"db.sock", "conf.db", "switch.ctl"} <= {path.name for path in switch.iterdir()}
            stack = next(watch.pid for watch in first.endpoint.watches if watch.role == "data NIC")
            assert f"{BRIDGE}:" in shown(stack, "ip", "-o", "link")
        are_as_before(site.nodes, before)
        assert not list(Path(f"/proc/{site.nodes[0].pid}/root/run").glob("tare-ovs-*"))
    assert watch.left(site.name) == []


def test_a_switch_that_is_gone_is_not_told_to_undo_anything() -> None:
    from nodes import make_node
    from tare.daemons.daemons import Place

    Vswitch(place=Place(node=make_node(), pid=2**30, folder="/run/x")).undo("del-br", BRIDGE)
