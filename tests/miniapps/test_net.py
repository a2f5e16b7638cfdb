"""The network tests count what arrives, on the address that they were given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from kernels.launching import argv_of, end_by_its_ranks, ticking
from miniapps.launching import Record, counts, figures, ran, right, series
from miniapps.test_all import SMALL
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]

MS_A_TICK = {"TARE_TICK_NS": "1000000"}
"""A millisecond is over each time that the clock is read, once a message or round trip."""


def notes(record: Record) -> dict[str, str]:
    return {note["name"]: note["text"] for note in record["notes"]}


@pytest.mark.parametrize("spec", [spec for name, spec in SMALL.items() if name.startswith("net-")])
def test_what_was_sent_is_what_came_and_a_third_rank_takes_no_part(program: Path, spec: str) -> None:
    record = right(program, spec, 3)
    assert notes(record) == {"address of the first rank": "127.0.0.1", "address of the last rank": "127.0.0.1"}
    assert counts(record, "send") == {}


def test_a_stream_takes_its_time_and_is_counted_in_megabits(program: Path) -> None:
    record = right(program, "net-tcp-stream:milliseconds=400,bytes=10000", 2, env=ticking(**MS_A_TICK))
    assert counts(record, "socket") == {10000: 400}
    assert record["operations"] == pytest.approx(400 * 10000 * 8 / 1e6)
    assert record["elapsed_s"] == pytest.approx(1e-3), "the receiver's time, who reads the clock in the end"
    assert figures(record)["throughput of the sender"] == pytest.approx(record["operations"] / 0.401)


def test_a_ping_pong_counts_both_directions(program: Path) -> None:
    record = right(program, "net-tcp-pingpong:milliseconds=100,bytes=1000", 2, env=ticking(**MS_A_TICK))
    assert counts(record, "socket") == {1000: 2 * 100}
    assert record["operations"] == pytest.approx(2 * 100 * 1000 * 8 / 1e6)
    assert record["elapsed_s"] == pytest.approx(0.101)


@pytest.mark.parametrize(("app", "readings"), [("net-tcp-rtt", 1), ("net-udp-rtt", 2)])
def test_every_round_trip_is_kept_with_its_own_time(program: Path, app: str, readings: int) -> None:
    record = right(program, f"{app}:round_trips=300", 2, env=ticking(**MS_A_TICK))
    samples = series(record)["round trip"]
    assert len(samples) == record["operations"] == 300 - round(3 * figures(record).get("loss", 0))
    assert samples == pytest.approx([1e-3] * len(samples))
    assert record["elapsed_s"] >= 1e-3 * readings * len(samples)
    told = figures(record)
    assert told["median round trip"] == told["shortest round trip"] == told["longest round trip"] == pytest.approx(1e3)


def test_the_shortest_and_the_longest_round_trip_are_those_of_the_samples(program: Path) -> None:
    record = right(program, "net-tcp-rtt:round_trips=300", 2)
    samples = series(record)["round trip"]
    assert figures(record)["shortest round trip"] == pytest.approx(1e6 * min(samples))
    assert figures(record)["longest round trip"] == pytest.approx(1e6 * max(samples))


def test_a_stream_of_datagrams_tells_its_loss(program: Path) -> None:
    record = right(program, "net-udp-stream:milliseconds=1", 2)
    told = figures(record)
    assert told["datagrams sent"] * 1460 >= 1 << 20
    assert told["loss"] == pytest.approx(100 * (1 - told["datagrams received"] / told["datagrams sent"]))
    assert record["operations"] == pytest.approx(told["datagrams received"] * 1460 * 8 / 1e6)


@pytest.mark.parametrize("wish", ["127.0.0.1", "127.0.0.0/8", "lo"])
def test_an_address_a_subnet_or_an_interface_may_be_named(program: Path, wish: str) -> None:
    record = right(program, "net-tcp-rtt:round_trips=10", 2, env={"TARE_NET_ADDRESS": wish})
    assert set(notes(record).values()) == {"127.0.0.1"}


@pytest.mark.parametrize("wish", ["240.0.0.1", "240.0.0.0/8", "none0", "127.0.0.0/0"])
def test_an_address_that_is_not_here_ends_the_job(program: Path, wish: str) -> None:
    status, record, stderr = ran(program, "net-tcp-rtt:round_trips=10", 2, env={"TARE_NET_ADDRESS": wish})
    assert status not in (0, 2)
    assert record == {}
    assert f"TARE_NET_ADDRESS={wish} is no address, subnet or interface of this host" in stderr


def test_sockets_have_the_chosen_address_and_no_other(program: Path) -> None:
    argv = argv_of("openmpi", 2, {}, program, "net-udp-stream:milliseconds=600000")
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as job:
        addresses = wait_until(lambda: connected(job.pid), "a socket that is connected")
        end_by_its_ranks(job)
    assert addresses == {"127.0.0.1"}


def connected(job: int) -> set[str]:
    """Return the addresses that the processes of a job send datagrams from."""
    found = set()
    for child in psutil.Process(job).children(recursive=True):
        found |= {each.laddr.ip for each in child.net_connections("udp4") if each.raddr}
    return found
