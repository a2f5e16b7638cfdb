"""The network tests count what arrives, on the address that they were given."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from miniapps.launching import argv_of, counts, failed, figures, ran, series

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

SPECS = (
    "net-tcp-stream:milliseconds=200",
    "net-tcp-pingpong:milliseconds=200",
    "net-tcp-rtt:round_trips=500",
    "net-udp-stream:milliseconds=200",
    "net-udp-rtt:round_trips=500",
)


def notes(record: dict[str, Any]) -> dict[str, str]:
    return {note["name"]: note["text"] for note in record["notes"]}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("spec", SPECS)
def test_what_was_sent_is_what_came(program: Path, spec: str, ranks: int) -> None:
    status, record, stderr = ran(program, spec, ranks)
    assert status == 0, stderr
    assert record["verified"]
    assert record["rate"] > 0
    assert notes(record) == {"address of the first rank": "127.0.0.1", "address of the last rank": "127.0.0.1"}
    assert counts(record, "send") == {}


def test_a_stream_takes_its_time_and_is_counted_in_megabits(program: Path) -> None:
    _, record, _ = ran(program, "net-tcp-stream:milliseconds=400,bytes=10000", 2)
    # The receiver's time is counted from when it leaves the barrier before, which the sender may have left earlier.
    assert 0.3 <= record["elapsed_s"] < 1.5
    assert figures(record)["throughput of the sender"] <= record["operations"] / 0.4
    sent = counts(record, "socket")[10000]
    assert record["operations"] == pytest.approx(sent * 10000 * 8 / 1e6)


def test_a_ping_pong_counts_both_directions(program: Path) -> None:
    _, record, _ = ran(program, "net-tcp-pingpong:milliseconds=100,bytes=1000", 2)
    assert record["operations"] == pytest.approx(counts(record, "socket")[1000] * 1000 * 8 / 1e6)


@pytest.mark.parametrize("app", ["net-tcp-rtt", "net-udp-rtt"])
def test_every_round_trip_is_kept(program: Path, app: str) -> None:
    _, record, _ = ran(program, f"{app}:round_trips=300", 2)
    samples = series(record)["round trip"]
    assert len(samples) == 300
    assert min(samples) > 0
    assert sum(samples) <= record["elapsed_s"] * 1.001
    assert figures(record)["shortest round trip"] == pytest.approx(1e6 * min(samples))
    assert figures(record)["longest round trip"] == pytest.approx(1e6 * max(samples))


def test_a_stream_of_datagrams_tells_its_loss(program: Path) -> None:
    _, record, _ = ran(program, "net-udp-stream:milliseconds=1", 2)
    told = figures(record)
    assert told["datagrams sent"] * 1460 >= 1 << 20
    assert told["loss"] == pytest.approx(100 * (1 - told["datagrams received"] / told["datagrams sent"]))
    assert record["operations"] == pytest.approx(told["datagrams received"] * 1460 * 8 / 1e6)


@pytest.mark.parametrize("spec", SPECS)
def test_what_does_not_arrive_as_it_was_sent_is_found(program: Path, spec: str) -> None:
    app = spec.split(":", 1)[0]
    status, record, _ = ran(program, spec, 2, env={"TARE_FAULT": f"corrupt:{app}"})
    assert status == 3
    assert len(failed(record)) == 1


@pytest.mark.parametrize("wish", ["127.0.0.1", "127.0.0.0/8", "lo"])
def test_an_address_a_subnet_or_an_interface_may_be_named(program: Path, wish: str) -> None:
    status, record, stderr = ran(program, "net-tcp-rtt:round_trips=10", 2, env={"TARE_NET_ADDRESS": wish})
    assert status == 0, stderr
    assert set(notes(record).values()) == {"127.0.0.1"}


@pytest.mark.parametrize("wish", ["240.0.0.1", "240.0.0.0/8", "none0", "127.0.0.0/0"])
def test_an_address_that_is_not_here_ends_the_job(program: Path, wish: str) -> None:
    status, record, stderr = ran(program, "net-tcp-rtt:round_trips=10", 2, env={"TARE_NET_ADDRESS": wish})
    assert status not in (0, 2)
    assert record == {}
    assert f"TARE_NET_ADDRESS={wish} is no address, subnet or interface of this host" in stderr


def test_sockets_have_the_chosen_address_and_no_other(program: Path) -> None:
    with subprocess.Popen(argv_of(program, "net-udp-stream:milliseconds=1500", 2), stdout=subprocess.PIPE) as job:
        found: set[str] = set()
        until = time.monotonic() + 10
        while job.poll() is None and len(found) == 0 and time.monotonic() < until:
            for child in psutil.Process(job.pid).children(recursive=True):
                found |= {each.laddr.ip for each in child.net_connections("udp4") if each.raddr}
        job.communicate(timeout=30)
    assert found == {"127.0.0.1"}


@pytest.mark.parametrize("spec", SPECS)
def test_one_rank_has_nobody_to_talk_to(program: Path, spec: str) -> None:
    status, record, stderr = ran(program, spec, 1)
    assert (status, record) == (2, {})
    assert "cannot run on 1 rank; allowed: 2 and more" in stderr
