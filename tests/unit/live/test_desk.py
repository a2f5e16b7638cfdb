"""Callers that are slow, silent, many or without the token hold nothing up; all together use a share of a core."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tare.errors import InfrastructureError
from tare.live.budget import ANSWERS_SHARE, LONGEST_RENDERING_S, RENDERING_SHARE, TRIAL_S, Budget
from tare.live.desk import MOST_CALLERS, PATIENCE, Desk
from tare.live.door import CARRIED, Door
from tare.live.requests import MOST_BYTES, Asked, Refusal, Request, answer, is_whole, parse, refuse
from unit.clock import Clock
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


def test_a_request_may_come_in_parts_and_nothing_is_sent_outside_of_a_call(door: Door) -> None:
    desk = Desk(door)
    whole = request(f"/?token={door.token}")
    with called(door, whole[:9]) as slow:
        assert desk.receive() == []
        slow.sendall(whole[9:])
        (caller,) = desk.receive(LONG_S)
        desk.send([(caller, b"answer")], LONG_S)
        assert slow.recv(9) == b"answer"
    desk = Desk(door)
    with asked(door) as waiting:
        (caller,) = desk.receive()
        assert not has_bytes(waiting)
        desk.send([(caller, b"now")], LONG_S)
        assert read_all(waiting) == 3


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


@pytest.mark.parametrize("stranger", [b"", b"GET / HT", request("/?token=wrong")], ids=["silent", "half", "no token"])
def test_connections_of_strangers_keep_no_browser_out(door: Door, stranger: bytes) -> None:
    desk = Desk(door)
    with ExitStack() as stack:
        stack.callback(desk.close)
        for _ in range(2 * MOST_CALLERS):  # they wait in the kernel, before and behind the browser
            stack.enter_context(called(door, stranger))
        stack.enter_context(asked(door))
        for _ in range(3 * MOST_CALLERS):
            stack.enter_context(called(door, stranger))
        assert desk.has_callers()
        whole = desk.receive()
        assert [each.request for each in whole if isinstance(each.request, Request)] == [Request(asked=Asked.PAGE)]
        assert len(whole) <= MOST_CALLERS


def test_a_browser_that_connects_before_it_asks_is_not_displaced_once_it_has(door: Door) -> None:
    desk = Desk(door)
    with ExitStack() as stack:
        stack.callback(desk.close)
        early = stack.enter_context(called(door))
        assert desk.has_callers()
        early.sendall(request(f"/?token={door.token}"))
        for _ in range(2 * MOST_CALLERS):
            stack.enter_context(called(door))
        (caller,) = desk.receive()
        assert caller.request == Request(asked=Asked.PAGE)


def read_all(connection: socket.socket) -> int:
    """Return how many bytes arrive until the connection ends."""
    return sum(iter(lambda: len(connection.recv(1 << 20)), 0))


TOKEN = "secret-1"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]:80", "localhost"])
def test_the_page_is_given_for_every_name_of_this_machine(host: str) -> None:
    found = parse(request(f"/?token={TOKEN}", host), TOKEN)
    assert found == Request(asked=Asked.PAGE)


def test_a_request_for_progress_names_the_report_that_is_shown() -> None:
    found = parse(request(f"/progress?token={TOKEN}&report=3"), TOKEN)
    assert found == Request(asked=Asked.PROGRESS, report="3")
    assert parse(request(f"/?script=no&token={TOKEN}"), TOKEN) == Request(asked=Asked.PAGE, script=False)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("/"), 403),
        (request("/?token="), 403),
        (request("/?token=secret-2"), 403),
        (request("/?token=secret-"), 403),
        (request("/?token=%ff%00é"), 403),
        (request(f"/?token={TOKEN}", "rebound.example"), 403),
        (request(f"/?token={TOKEN}", "127.0.0.1.example"), 403),
        (request(f"/?token={TOKEN}", "127.0.0.1:80\r\nHost: localhost"), 403),
        (f"GET /?token={TOKEN} HTTP/1.1\r\n\r\n".encode(), 403),
        (request(f"/report.html?token={TOKEN}"), 404),
        (request(f"/../etc/passwd?token={TOKEN}"), 404),
        (request(f"/?token={TOKEN}", method="POST"), 405),
        (request(f"/?token={TOKEN}", method="HEAD"), 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (request("//[/?token=" + TOKEN), 400),
        (request("/?" + "&".join(f"a{n}=1" for n in range(100)) + f"&token={TOKEN}"), 400),
        (b"GET /" + b"a" * MOST_BYTES + b" HTTP/1.1\r\n\r\n", 431),
    ],
)
def test_a_bad_request_is_refused(data: bytes, status: int) -> None:
    assert is_whole(data)
    found = parse(data, TOKEN)
    assert isinstance(found, Refusal)
    assert found.status.value == status
    told = refuse(found)
    assert told.startswith(f"HTTP/1.1 {status} ".encode())
    assert TOKEN.encode() not in told


def test_no_answer_is_kept_framed_or_shared() -> None:
    headers = answer(b"x", "text/html").decode()
    for wanted in ("Cache-Control: no-store", "frame-ancestors 'none'", "Referrer-Policy: no-referrer", "nosniff"):
        assert wanted in headers
    assert "Access-Control" not in headers


def test_renderings_use_less_than_their_share_over_a_long_run() -> None:
    clock, cpu, rendered = Clock(), Clock(), 0
    budget = Budget(clock, cpu)
    for _ in range(10_000):
        clock.now_s += 1.0
        if budget.allows_rendering(100):
            rendered += 1
            with budget.of_rendering(100):
                cpu.now_s += 0.4
    assert cpu.now_s <= RENDERING_SHARE * clock.now_s
    assert rendered >= 0.9 * RENDERING_SHARE * 10_000 / 0.4, "it renders far less than it may"


def test_answers_use_less_than_their_share_whatever_is_asked() -> None:
    clock, cpu = Clock(), Clock()
    budget = Budget(clock, cpu)
    for _ in range(100_000):
        clock.now_s += 0.1
        if budget.allows_answers():
            with budget.of_answers():
                cpu.now_s += 0.002
                clock.now_s += 0.002
    assert 0.9 * ANSWERS_SHARE <= cpu.now_s / clock.now_s <= 1.1 * ANSWERS_SHARE
    assert ANSWERS_SHARE + RENDERING_SHARE <= 0.01


def test_slow_browsers_hold_the_run_up_for_at_most_one_per_cent_of_it() -> None:
    clock = Clock()
    budget, waited_s = Budget(clock, Clock()), 0.0
    while clock.now_s < 10_000:
        clock.now_s += 1.0
        if budget.allows_answers():
            with budget.of_answers():
                clock.now_s += 0.75
                waited_s += 0.75
    assert waited_s <= 0.0101 * clock.now_s + 1.75


def test_what_is_expected_to_take_long_is_not_rendered() -> None:
    clock, cpu = Clock(), Clock()
    budget = Budget(clock, cpu)
    clock.now_s = 1e6
    assert budget.allows_rendering(100)
    assert not budget.allows_rendering(int(LONGEST_RENDERING_S / TRIAL_S))
    with budget.of_rendering(100):
        cpu.now_s += LONGEST_RENDERING_S + 1
    assert budget.too_large(100)
    assert not budget.allows_rendering(100)
