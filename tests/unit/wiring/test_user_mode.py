"""User-mode networks: their command lines, what they refuse, and what they say is missing; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes import value
from tare.networks import NETWORKS, pasta, slirp4netns
from tare.node import Nic
from tare.wiring import user_mode

NIC = Nic(name="data0", address="10.214.0.3", prefix=24)
NAMES = ("pasta", "slirp4netns")


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


@pytest.mark.parametrize("name", NAMES)
def test_two_nodes_and_two_pods_of_a_node_are_refused(name: str) -> None:
    assert NETWORKS[name].refuse(1) is None
    assert "use" in str(NETWORKS[name].refuse(2))


@pytest.mark.parametrize(("name", "package"), [("pasta", "passt"), ("slirp4netns", "slirp4netns")])
def test_what_is_missing_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
