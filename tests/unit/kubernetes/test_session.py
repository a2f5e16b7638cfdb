"""A stream is closed while a thread reads from it: the thread ends, and only then is the socket's number free."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tare.kubernetes.session import Container, Doorway, Session

PLACE = Container(namespace="n", pod="p", name="ranks")


class Stream(socket.socket):
    """The near end of a stream, with what TLS adds to a socket."""

    def pending(self) -> int:
        return 0


class Closable:
    """A websocket: it closes its socket, and then has none."""

    def __init__(self, sock: Stream) -> None:
        self.sock: Stream | None = sock

    def shutdown(self) -> None:
        if self.sock:
            self.sock.close()
        self.sock = None


class Client:
    """What the official client's stream does, without frames: all that arrives is output."""

    subprotocol = "v5.channel.k8s.io"

    def __init__(self) -> None:
        near, self.far = socket.socketpair()
        self.stream = Stream(fileno=near.detach())
        self.sock = Closable(self.stream)
        self.open = True
        self.read = b""

    def is_open(self) -> bool:
        return self.open

    def update(self, timeout: float = 0) -> None:
        if self.open and self.sock.sock:
            self.read = self.sock.sock.recv(100)
            self.open = bool(self.read)

    def read_channel(self, channel: int, timeout: float = 0) -> bytes:
        data, self.read = (self.read, b"") if channel == 1 else (b"", self.read)
        return data

    def write_channel(self, channel: int, data: bytes) -> None:
        assert self.sock.sock
        self.sock.sock.sendall(data)


class Api:
    """Gives the clients that a test has made, one after the other."""

    def __init__(self, *clients: Client) -> None:
        self.clients = list(clients)

    def connect(self, path: str, query: object) -> Client:
        return self.clients.pop(0)


def session_of(client: Client) -> Session:
    return Session(Api(client), PLACE, ("true",))  # type: ignore[arg-type]


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    made = [Client() for _ in range(3)]
    yield made
    for each in made:
        each.far.close()
        each.stream.close()


@pytest.fixture
def client(clients: list[Client]) -> Client:
    return clients[0]


def test_closing_a_stream_ends_the_thread_that_reads_and_only_then_its_number_is_free(client: Client) -> None:
    session, taken = session_of(client), list[bytes]()
    ended: list[int] = []
    began = threading.Event()

    def take(_channel: int, data: bytes) -> None:
        taken.append(data)
        began.set()

    thread = threading.Thread(target=lambda: ended.append(session.pump(None, take)))
    thread.start()
    client.far.sendall(b"out")
    assert began.wait()
    number = client.stream.fileno()
    before = os.fstat(number).st_ino
    closer = threading.Thread(target=session.close)
    closer.start()
    closer.join()
    thread.join()
    assert not thread.is_alive()
    assert taken == [b"out"]
    assert ended == [255], "no status was told"
    assert client.stream.fileno() == -1, "who read has closed it"
    assert not _is(number, before)


def test_a_stream_that_nobody_reads_is_closed_at_once(client: Client) -> None:
    session_of(client).close()
    assert client.stream.fileno() == -1


def test_a_doorway_keeps_as_many_shells_as_are_asked_for_and_uses_them_first(clients: list[Client]) -> None:
    api: Any = Api(*clients)
    doorway = Doorway(api, PLACE)
    doorway.prepare(2)
    doorway.settle()
    doorway.prepare(2)
    assert len(api.clients) == 1
    for each in clients[:2]:
        doorway.start(("echo", "it"))
        assert each.far.recv(100) == b"exec echo it\n"
    doorway.start(("echo", "it"))
    assert api.clients == [], "the third has a stream of its own"
    doorway.prepare(1)
    with pytest.raises(IndexError):
        doorway.start(("echo", "no more"))
    doorway.close()


def _is(number: int, inode: int) -> bool:
    try:
        return os.fstat(number).st_ino == inode
    except OSError:
        return False
