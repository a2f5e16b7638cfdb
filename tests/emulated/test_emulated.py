"""What this machine's kernel lacks is proven in an emulated machine with Debian's kernel: it works, however slowly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from emulated import machine
from integration.live import by_environment, outcome

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.long,
    pytest.mark.timeout(1800),  # the root is built once; then another machine or a lab may be waited for
    pytest.mark.requires("root", "qemu", "mmdebstrap", "openmpi", "cmake"),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    disk = machine.cache_disk(tmp_path_factory.mktemp("cache"))
    yield disk
    disk.unlink()


# --- verbs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verbs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> machine.Job:
    return machine.run("verbs", tmp_path_factory.mktemp("verbs") / "job", cache=cache)


@pytest.mark.parametrize("kind", ["native", "container"])
def test_a_ping_pong_over_verbs_takes_the_cable_between_two_soft_roce_devices(verbs: machine.Job, kind: str) -> None:
    before, after = (counts(verbs.part(f"{kind} {when}")) for when in ("before", "after"))
    said = verbs.part(kind)
    records = [json.loads(line[6:]) for line in said.splitlines() if line.startswith("@tare ")]
    results = {record["kernel"] for record in records if record["type"] == "kernel"}
    assert results == {"latency", "bw"}, said
    # UCX's own word, of both ranks, on what carries their messages
    for device in ("rxe0", "rxe1"):
        assert re.search(rf"ep_cfg\[\d+\]: tag\(rc_verbs/{device}:1", said), said
    assert "tag(tcp" not in said
    # 50 messages of 8 bytes each way and 20 of 64 KiB one way, in packets of at most 4096 bytes
    for device in ("rxe0", "rxe1"):
        assert after[f"{device} sent"] - before[f"{device} sent"] > 50, said
        assert after[f"{device} rcvd"] - before[f"{device} rcvd"] > 50, said
    assert after["rxe0 sent"] - before["rxe0 sent"] > 20 * 65536 / 4096, said
    # and they were on the cable: no end of it sends what its device has not sent
    for end in ("0", "1"):
        assert after[f"cable{end} sent"] - before[f"cable{end} sent"] > 50, said


def counts(said: str) -> Mapping[str, int]:
    return {key: int(value) for key, _, value in (line.rpartition(" ") for line in said.splitlines()) if key}


# --- networks -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def networks(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> machine.Job:
    return machine.run("networks", tmp_path_factory.mktemp("networks") / "job", cache=cache)


@pytest.fixture(scope="module")
def measured(networks: machine.Job) -> dict[str, list[dict[str, Any]]]:
    found = by_environment(networks.folder / "results" / "emulated")
    assert found, networks.tail
    return found


NIC, VETH, WRAPPED, IPVLAN, SILENT = "data NIC", "veth of the pod", "IP-in-IP", "ipvlan", "must stay silent"
VXLAN, UNDER_VXLAN = "VXLAN of Open vSwitch", "data NIC under the VXLAN"
CARRIERS: Mapping[str, set[str]] = {
    "bare": {NIC},
    "bare+calico-ipip": {VETH, NIC, WRAPPED},
    "bare+ovs": {VETH, NIC},
    "bare+weave": {VETH, VXLAN, UNDER_VXLAN},
    "bare+ipvlan-l2": {IPVLAN, NIC},
    "bare+ipvlan-l3": {IPVLAN, NIC},
}
PAYLOAD_BYTES = 65536 * 20


@pytest.mark.parametrize("name", CARRIERS)
def test_a_network_that_needs_more_of_a_kernel_carries_what_it_claims(
    name: str, networks: machine.Job, measured: dict[str, list[dict[str, Any]]]
) -> None:
    assert name in measured, networks.tail
    (trial,) = measured[name]
    assert outcome(trial) == "Completed", (trial["outcome"], networks.tail)
    assert {item["role"] for item in trial["traffic"]} - {SILENT} == CARRIERS[name]
    for item in trial["traffic"]:
        if item["role"] == SILENT:
            assert max(item["tx_bytes"], item["rx_bytes"]) < PAYLOAD_BYTES / 10, item
        else:
            assert min(item["tx_bytes"], item["rx_bytes"]) >= PAYLOAD_BYTES, item
