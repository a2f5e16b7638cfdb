"""Adapters are read from recorded trees: which port a transport takes, what an image needs, what proves the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node, make_pod
from tare.counters import monitor
from tare.errors import InfrastructureError, RefusedError
from tare.host import devices
from tare.node import SILENT_ROLE, Endpoint, Watch
from tare.wiring import infiniband
from unit.sysfs import MLX5, SOFT, machine

NODE = make_node(pid=7)
POD = make_pod(NODE, pid=7)
ENDPOINT = Endpoint(
    address="10.214.0.1",
    prefix=24,
    interface="data0",
    mtu=1500,
    watches=(Watch(pid=7, interface="data0", role="data NIC"), Watch(pid=7, interface="lo", role=SILENT_ROLE)),
)


def test_ports_are_read_and_a_transport_takes_the_first_active_one(tmp_path: Path) -> None:
    _, classes = machine(tmp_path)
    found = {port.name: port for port in infiniband.ports(classes)}
    assert list(found) == ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]
    assert [port.roce for port in found.values()] == [False, True, False]
    assert [port.interface for port in found.values()] == ["ib0", "ens1f1np1", "ib2"]
    assert {port.driver for port in found.values()} == {"mlx5_core"}
    assert found["mlx5_0:1"].words == "mlx5_0:1 (InfiniBand), 100 Gb/sec (4X EDR)"
    first, second, third = infiniband.ports(classes)
    for ports, name in (
        ((first, second, third), "mlx5_0:1"),
        ((second, third), "mlx5_1:1"),
        ((second, first), "mlx5_0:1"),
    ):
        assert infiniband.port_for("verbs", ports).name == name


def test_what_is_down_or_missing_is_told_and_active_adapters_are_given(tmp_path: Path) -> None:
    dev, classes = machine(tmp_path)
    down = infiniband.ports(classes)[2:]
    with pytest.raises(RefusedError, match=r"transport: verbs needs an active port \(mlx5_2:1 is 1: DOWN\)"):
        infiniband.port_for("verbs", down)
    with pytest.raises(RefusedError, match="transport: ofi:psm2 needs an hfi1 adapter, but this machine has none"):
        infiniband.port_for("ofi:psm2", infiniband.ports(classes))
    assert infiniband.probe("verbs", classes) is None
    assert infiniband.probe("ofi:efa", classes) is not None
    given = devices.find_infiniband(dev, classes)
    assert given == tuple(f"/dev/infiniband/{name}" for name in ("uverbs0", "uverbs1", "rdma_cm"))


def test_a_port_must_carry_the_messages_and_the_data_network_be_silent(tmp_path: Path) -> None:
    _, classes = machine(tmp_path)
    over = infiniband.over_port(ENDPOINT, "verbs", POD, classes)
    assert (over.port, over.roce, over.address) == ("mlx5_0:1", False, ENDPOINT.address)
    assert [(watch.interface, watch.role) for watch in over.watches] == [
        ("mlx5_0:1", "InfiniBand port"),
        ("data0", SILENT_ROLE),
        ("lo", SILENT_ROLE),
    ]
    assert over.facts["port"].startswith("mlx5_0:1 (InfiniBand)")


def test_the_packets_of_a_soft_adapter_pass_the_interface_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, classes = machine(tmp_path, SOFT)
    monkeypatch.setattr(infiniband, "interfaces_in", lambda _: {"eth1": ("10.0.0.1", 24)})
    over = infiniband.over_port(replace(ENDPOINT, interface="eth1", watches=()), "verbs", POD, classes)
    assert over.watches == (Watch(pid=7, interface="eth1", role="interface under the RoCE port"),)
    assert infiniband.user_driver(infiniband.ports(classes)[0]) == "rxe"
    nothing = replace(infiniband.ports(classes)[0], interface="")
    with pytest.raises(InfrastructureError, match="nothing can prove"):
        infiniband.watch_of(nothing, POD)


def test_ip_over_infiniband_has_the_address_of_ib0_or_is_told_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, classes = machine(tmp_path)
    assert infiniband.ipoib_interfaces(classes) == ("ib0", "ib2")
    monkeypatch.setattr(infiniband, "interfaces_in", lambda _: {"ib0": ("10.9.0.1", 16), "data0": ("10.214.0.1", 24)})
    monkeypatch.setattr(infiniband, "mtu_of", lambda *_: 2044)
    over = infiniband.over_ipoib(ENDPOINT, POD, classes)
    assert (over.interface, over.address, over.prefix, over.mtu) == ("ib0", "10.9.0.1", 16, 2044)
    assert ("ib0", "IPoIB interface") in [(watch.interface, watch.role) for watch in over.watches]
    assert ("data0", SILENT_ROLE) in [(watch.interface, watch.role) for watch in over.watches]
    monkeypatch.setattr(infiniband, "interfaces_in", lambda _: {"data0": ("10.214.0.1", 24)})
    with pytest.raises(InfrastructureError, match="n0 has no IP over InfiniBand interface"):
        infiniband.over_ipoib(ENDPOINT, POD, classes)
    assert "needs an InfiniBand adapter" in str(infiniband.probe_ipoib(tmp_path))
    _, classes = machine(tmp_path / "a", SOFT)
    assert "modprobe ib_ipoib" in str(infiniband.probe_ipoib(classes))
    _, classes = machine(tmp_path / "b")
    assert infiniband.probe_ipoib(classes) is None


def test_a_port_counts_in_words_of_four_bytes_for_all_hosts_that_share_it(tmp_path: Path) -> None:
    _, classes = machine(tmp_path)
    assert monitor.port_counters("mlx5_0:1", classes) == (8000, 20, 4000, 10)
    assert monitor.port_counters("mlx5_2:1", classes) is None
    watch = Watch(pid=0, interface="mlx5_0:1", role="InfiniBand port")
    places = [monitor.HostWatch(node=replace(NODE, name=name), pid=7, watches=(watch,)) for name in ("n0", "n1")]
    before = monitor.CounterValues(interfaces={("", 0, "mlx5_0:1"): (0, 0, 0, 0)})
    after = monitor.CounterValues(interfaces={("", 0, "mlx5_0:1"): (2000, 4, 2000, 4)})
    assert [(item.node, item.rx_bytes, item.tx_bytes) for item in monitor.traffic(places, before, after)] == [
        ("n0", 1000, 1000),
        ("n1", 1000, 1000),
    ]


def image(folder: Path, *, driver: str = "mlx5", private: str = "34", library: bytes = b"\0rdmav34\0") -> Path:
    libraries = folder / "usr" / "lib" / "x86_64-linux-gnu"
    (libraries / "libibverbs").mkdir(parents=True)
    (libraries / "libibverbs.so.1.14.44.0").write_bytes(library)
    (libraries / "libibverbs.so.1").symlink_to("libibverbs.so.1.14.44.0")
    (libraries / "libmlx5.so.1.24.44.0").write_bytes(b"")
    (libraries / "libmlx5.so.1").symlink_to("libmlx5.so.1.24.44.0")
    (libraries / "libibverbs" / f"lib{driver}-rdmav{private}.so").write_bytes(b"")
    return folder


def test_an_image_with_the_driver_fits_unless_the_kernel_speaks_otherwise(tmp_path: Path) -> None:
    _, classes = machine(tmp_path / "sys")
    rootfs = image(tmp_path / "image")
    assert infiniband.unfit(rootfs, "verbs", classes) is None
    assert infiniband.versions(rootfs) == {"libibverbs": "1.14.44.0", "libmlx5": "1.24.44.0"}
    _, classes = machine(tmp_path / "newer", MLX5.replace("abi_version 6", "abi_version 7"))
    assert "is 7, but rdma-core supports 3 to 6" in str(infiniband.unfit(image(tmp_path / "i"), "verbs", classes))


def test_what_an_image_lacks_for_an_adapter_is_told_with_what_brings_it(tmp_path: Path) -> None:
    _, classes = machine(tmp_path / "sys")
    (tmp_path / "none").mkdir()
    assert "no libibverbs: apt-get install" in str(infiniband.unfit(tmp_path / "none", "verbs", classes))
    other = image(tmp_path / "other", driver="mlx4")
    assert "no driver for mlx5_0 (libmlx5-rdmav*.so)" in str(infiniband.unfit(other, "verbs", classes))
    mixed = image(tmp_path / "mixed", private="25")
    assert "another rdma-core than its libibverbs" in str(infiniband.unfit(mixed, "verbs", classes))
