"""Browsers that are slow, silent or too many hold nothing up, and nothing is sent outside of a call."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from collections.abc import Iterator

import pytest

from tare.errors import InfrastructureError
from tare.live.desk import MOST_CALLERS, PATIENCE, Desk
from tare.live.door import CARRIED, Door
from unit.live.callers import asked, called, has_bytes, request

LONG_S = 3600.0


def queued(connection: socket.socket) -> int:
    """Return how many bytes the other side has not taken."""
    return int(struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0])


@pytest.fixture
def door() -> Iterator[Door]:
    with Door.open() as opened:
        yield opened


def test_the_address_is_of_this_machine_only_and_has_a_new_token(door: Door) -> None:
    with Door.open() as other:
        assert other.token != door.token
    assert door.listener.getsockname()[0] == "127.0.0.1"
    assert door.url == f"http://127.0.0.1:{door.listener.getsockname()[1]}/?token={door.token}"
    assert len(door.token) >= 20


def test_a_process_that_replaces_this_one_keeps_address_and_token(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    number, _, token = door.carry()[CARRIED].partition(" ")
    assert os.get_inheritable(int(number))
    monkeypatch.setenv(CARRIED, f"{os.dup(int(number))} {token}")
    with Door.open() as taken:
        assert taken.carried
        assert taken.url == door.url
        assert not os.get_inheritable(taken.listener.fileno())
        assert CARRIED not in os.environ, "ranks would get the token"


def test_a_variable_that_names_no_socket_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CARRIED, "nothing secret")
    with pytest.raises(InfrastructureError, match="names no socket"):
        Door.open()


def test_a_closed_door_accepts_nobody_even_if_another_process_holds_its_socket(door: Door) -> None:
    held = socket.socket(fileno=os.dup(door.listener.fileno()))
    address = door.listener.getsockname()
    door.close()
    with held, pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_caller_without_a_whole_request_is_closed_after_some_looks(door: Door) -> None:
    desk = Desk(door)
    with called(door, b"GET / HT") as slow, called(door) as silent:
        for _ in range(PATIENCE):
            assert desk.has_callers()
            assert desk.receive() == []
        assert not desk.has_callers()
        assert slow.recv(1) == b""
        assert silent.recv(1) == b""


def test_a_request_may_come_in_parts(door: Door) -> None:
    desk = Desk(door)
    whole = request(f"/?token={door.token}")
    with called(door, whole[:9]) as slow:
        assert desk.receive() == []
        slow.sendall(whole[9:])
        (caller,) = desk.receive(LONG_S)
        desk.send([(caller, b"answer")], LONG_S)
        assert slow.recv(9) == b"answer"


def test_a_caller_that_does_not_take_its_answer_is_reset_in_time(door: Door) -> None:
    with socket.socket() as slow, asked(door) as quick:
        desk = Desk(door, lambda: LONG_S if has_bytes(quick) and queued(of_quick[True].connection) == 0 else 0.0)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(door.listener.getsockname())
        slow.sendall(request(f"/?token={door.token}"))
        callers = desk.receive()
        of_quick = {each.connection.getpeername() == quick.getsockname(): each for each in callers}
        desk.send([(of_quick[True], b"small"), (of_quick[False], b"x" * (64 << 20))], 0.2)
        assert quick.recv(9) == b"small"
        with pytest.raises(ConnectionResetError):
            read_all(slow)
        assert not desk.has_callers()


def test_the_number_of_callers_is_limited(door: Door) -> None:
    desk = Desk(door)
    open_ = []
    for _ in range(3 * MOST_CALLERS):
        open_.append(asked(door))
        assert 1 <= len(desk.receive()) <= MOST_CALLERS
    desk.close()
    for each in open_:
        each.close()


def read_all(connection: socket.socket) -> int:
    """Return how many bytes arrive until the connection ends."""
    return sum(iter(lambda: len(connection.recv(1 << 20)), 0))


def test_nothing_is_sent_outside_of_a_call(door: Door) -> None:
    desk = Desk(door)
    with asked(door) as waiting:
        (caller,) = desk.receive()
        assert not has_bytes(waiting)
        desk.send([(caller, b"now")], LONG_S)
        assert read_all(waiting) == 3
