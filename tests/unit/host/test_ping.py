"""Echo requests: their form, and that a real one comes back."""

from __future__ import annotations

import os
import struct

import pytest

from tare.host.ping import checksum, is_reply, make_request, ping


def test_a_request_has_a_right_checksum_and_only_its_answer_is_taken() -> None:
    packet = make_request(7, 3, b"tare" * 400, 1500)
    assert len(packet) == 1500 - 20, "the rest is the header of IP"
    assert packet[0] == 8
    assert checksum(packet) == 0
    assert checksum(b"\x01") == 0xFEFF
    header = b"\x45" + bytes(19)
    answer = header + struct.pack("!BBHHH", 0, 0, 0, 7, 3)
    assert is_reply(answer, 7, 3)
    assert not is_reply(answer, 7, 4)
    assert not is_reply(answer, 8, 3)
    assert not is_reply(header + struct.pack("!BBHHH", 8, 0, 0, 7, 3), 7, 3)
    assert not is_reply(header, 7, 3)
    assert not is_reply(b"", 7, 3)


@pytest.mark.root
@pytest.mark.requires("root")
def test_the_loopback_answers_at_once_and_an_address_without_a_route_never() -> None:
    trips = ping(os.getpid(), "127.0.0.1", count=3, timeout_s=600)
    assert len(trips) == 3
    assert all(trip > 0 for trip in trips)
    assert ping(os.getpid(), "127.0.0.1", count=1, packet_bytes=65535, timeout_s=600)
    assert ping(os.getpid(), "240.0.0.1", count=1, timeout_s=0.1) == ()
