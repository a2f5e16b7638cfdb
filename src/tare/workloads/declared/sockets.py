"""Throughput and round trips of TCP and UDP, without MPI, between the first rank and the last."""

from __future__ import annotations

from functools import partial
from typing import Final

from tare.workloads.declared.declaration import Choice, MiniApp, Parameter

LEAST_RANKS: Final = 2
NOMINAL_MB: Final = 1000.0
"""Launches send as much as their time allows: their times are compared for this number of megabits."""

ROUND_TRIP_S: Final = 100e-6
DATAGRAM: Final = 65507
MESSAGE: Final = 1 << 28
DATAGRAMS_A_MS: Final = 4000


def _refuse(choice: Choice, ranks: int) -> str | None:
    if ranks >= LEAST_RANKS:
        return None
    return f"{choice.app.name} cannot run on 1 rank; allowed: 2 and more, of which the first and the last talk"


def _bytes(usual: int, high: int, what: str = "message") -> Parameter:
    return Parameter(name="bytes", meaning=f"of a {what}", usual=usual, low=16, high=high)


def _milliseconds(meaning: str) -> Parameter:
    return Parameter(name="milliseconds", meaning=meaning, usual=5000, low=1, high=600_000, thin=50)


ROUND_TRIPS: Final = Parameter(
    name="round_trips", meaning="that are timed", usual=10_000, low=1, high=1_000_000, thin=100
)


socket_app: Final = partial(MiniApp, ranks="2 or more: the first and the last talk", refuse=_refuse)
stream_app: Final = partial(
    socket_app,
    rate="Mb/s",
    operations=lambda _choice, _ranks: NOMINAL_MB,
    expected_s=lambda choice, _: 1.0 + choice.values["milliseconds"] / 1000,
)
tcp_stream_app: Final = partial(
    stream_app,
    parameters=(_bytes(65536, MESSAGE), _milliseconds("how long messages are sent")),
    memory_bytes=lambda choice, _: choice.values["bytes"] + 4096.0,
)


def _rtt_app(*, name: str, description: str, high: int, what: str, extra_bytes: float) -> MiniApp:
    return socket_app(
        name=name,
        description=description,
        rate="round trips/s",
        timed="all round trips, each with a time of its own",
        parameters=(_bytes(64, high, what), ROUND_TRIPS),
        memory_bytes=lambda choice, _: choice.values["bytes"] + extra_bytes + 16.0 * choice.values["round_trips"],
        operations=lambda choice, _: float(choice.values["round_trips"]),
        expected_s=lambda choice, _: 1.0 + ROUND_TRIP_S * choice.values["round_trips"],
    )


TCP_STREAM: Final = tcp_stream_app(
    name="net-tcp-stream",
    description="TCP throughput one way, from the first rank to the last",
    timed="from the common start to the last byte at the receiver; payload only",
)
TCP_PINGPONG: Final = tcp_stream_app(
    name="net-tcp-pingpong",
    description="TCP throughput both ways, one message at a time",
    timed="round trips, until the time is over; payload of both directions",
)
TCP_RTT: Final = _rtt_app(
    name="net-tcp-rtt",
    description="TCP round trips of small messages",
    high=MESSAGE,
    what="message",
    extra_bytes=4096.0,
)
UDP_STREAM: Final = stream_app(
    name="net-udp-stream",
    description="UDP throughput one way, from the first rank to the last, and loss",
    timed="from the common start to the last datagram at the receiver; payload only",
    parameters=(
        _bytes(1460, DATAGRAM, "datagram"),
        _milliseconds("how long datagrams are sent, if they are 1 MiB by then"),
    ),
    memory_bytes=lambda choice, _: choice.values["bytes"] + DATAGRAMS_A_MS / 8 * choice.values["milliseconds"],
)
UDP_RTT: Final = _rtt_app(
    name="net-udp-rtt",
    description="UDP round trips of small datagrams",
    high=DATAGRAM,
    what="datagram",
    extra_bytes=0.0,
)

SOCKETS: Final = (TCP_STREAM, TCP_PINGPONG, TCP_RTT, UDP_STREAM, UDP_RTT)
