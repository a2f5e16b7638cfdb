"""Programs of the head start commands in pods through a socket, and launchers in pods start daemons through the head.

Here a "pod" is this machine: what the streams of an API server would carry goes through pipes.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tare.clusters.pods import relay
from tare.clusters.pods.gate import ExecServer
from tare.clusters.pods.relay import AGENT, ExecRelay
from tare.clusters.pods.session import ERRORS, OUTPUT, ExecPool, ExecSession, PodContainer, line_of
from tare.errors import InfrastructureError
from tare.system.process import Result, run
from waiting import wait_until

PIPES = {OUTPUT: "stdout", ERRORS: "stderr"}


class LocalSession:
    """A command of this machine in the place of one in a container."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self.is_open = True
        self.reads = threading.Lock()

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)

    def pump(self, beside: socket.socket | None, take: Callable[[int, bytes], None]) -> int:
        with self.reads:
            return self._pump(beside, take)

    def _pump(self, beside: socket.socket | None, take: Callable[[int, bytes], None]) -> int:
        channels = {getattr(self.process, name).fileno(): channel for channel, name in PIPES.items()}
        open_ = set(channels)
        inputs = {beside.fileno()} if beside else set()
        while open_:
            for number in select.select([*open_, *inputs], [], [])[0]:
                if beside and number == beside.fileno():
                    if data := beside.recv(1 << 16):
                        self.send(data)
                    else:
                        inputs.clear()
                        self.end_input()
                elif data := os.read(number, 1 << 16):
                    take(channels[number], data)
                else:
                    open_.discard(number)
        return self.process.wait()

    def end_input(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def close(self) -> None:
        self.end_input()
        self.process.wait()
        with self.reads:  # the number of a pipe that is read must not be another's meanwhile
            for name in PIPES.values():
                getattr(self.process, name).close()


class LocalDoorway:
    """Starts commands on this machine, or fails as a lost pod does."""

    def __init__(self, *, lost: str = "") -> None:
        self.lost = lost
        self.prepared = 0

    def start(self, argv: Sequence[str]) -> LocalSession:
        if self.lost:
            raise InfrastructureError(self.lost)
        return LocalSession(argv)

    def prepare(self, count: int = 1) -> None:
        self.prepared = max(self.prepared, count)

    def settle(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExecServer]:
    monkeypatch.setattr(relay, "READY_S", 600.0)
    made = ExecServer(tmp_path)
    made.add("p0", LocalDoorway())  # type: ignore[arg-type]
    yield made
    made.close()


def entered(gate: ExecServer, pod: str, *argv: str, stdin: str = "") -> Result:
    return run((*gate.argv(pod), *argv), stdin=stdin, check=False, timeout_s=None)


def test_a_command_in_a_pod_behaves_as_the_command_or_says_why_not(gate: ExecServer, tmp_path: Path) -> None:
    ended = entered(gate, "p0", "sh", "-c", "cat; echo no >&2; exit 3", stdin="two\nlines\n")
    assert (ended.status, ended.stdout, ended.stderr) == (3, "two\nlines\n", "no\n")
    words = ["a b", "c\nd", 'e"\\f', "ü", "\U0001f600", ""]
    assert entered(gate, "p0", "printf", "%s|", *words).stdout == "".join(f"{word}|" for word in words)
    assert len(entered(gate, "p0", "sh", "-c", "yes 0123456789 | head -n 100000").stdout) == 1_100_000
    gate.add("lost", LocalDoorway(lost="pod lost is being removed"))  # type: ignore[arg-type]
    for pod, said in (("lost", "tare: pod lost is being removed\n"), ("none", "tare: there is no pod none\n")):
        ended = entered(gate, pod, "true")
        assert (ended.status, ended.stderr) == (125, said)
    argv = gate.argv("p0")
    gate.close()
    ended = run((*argv, "true"), check=False)
    assert ended.status == 125
    assert ended.stderr.startswith("tare-enter: the head cannot be reached: ")
    assert run(argv, check=False).stderr == "tare-enter: it is tare-enter SOCKET POD COMMAND...\n"


def test_every_pod_can_be_made_ready(gate: ExecServer) -> None:
    other = LocalDoorway()
    gate.add("p1", other)  # type: ignore[arg-type]
    gate.prepare()
    assert other.prepared == 1
    gate.prepare({"p1": 3, "gone": 1})
    assert other.prepared == 3


@pytest.mark.parametrize("word", ["plain", "two words", "line\nbreak", "back\\slash", "100%", "it's", "\\n", "ü"])
def test_a_waiting_shell_becomes_the_command_of_a_line(word: str) -> None:
    waiting = 'IFS= read -r tare_line && eval "$(printf %b "$tare_line")"'
    line = line_of(["printf", "%s", word])
    assert line.count(b"\n") == 1
    ended = subprocess.run(["/bin/sh", "-c", waiting], input=line, capture_output=True, check=True)
    assert ended.stdout.decode() == word
    after = subprocess.run(
        ["/bin/sh", "-c", waiting], input=line_of(["cat"]) + b"rest", capture_output=True, check=True
    )
    assert after.stdout == b"rest", "what follows the line is the command's input"


def test_a_launcher_in_a_pod_starts_daemons_through_the_head(gate: ExecServer, tmp_path: Path) -> None:
    folder = tmp_path / "launcher"
    folder.mkdir()
    (folder / "agent").write_text(AGENT)
    (folder / "agent").chmod(0o700)
    asked: list[list[str]] = []

    def start(words: list[str]) -> tuple[str, list[str]]:
        asked.append(words)
        if words[0] == "nowhere":
            raise InfrastructureError("no such host")
        return "p0", ["/bin/sh", "-c", " ".join(words[1:])]

    relayed = ExecRelay(gate, "p0", str(folder), start)
    wait_until((folder / "asks").exists)
    calls = [subprocess.Popen([folder / "agent", "n1", "exit", str(number)]) for number in range(5)]
    assert [call.wait() for call in calls] == [0, 1, 2, 3, 4], "each gets its own command's status"
    assert run((str(folder / "agent"), "nowhere", "true"), check=False, timeout_s=None).status == 125
    quoted = run((str(folder / "agent"), "n1", 'test "a  b" = "a  b" &&', "exit", "7"), check=False, timeout_s=None)
    assert (quoted.status, sorted(words[:1] for words in asked)) == (7, [["n1"]] * 6 + [["nowhere"]])
    relayed.close()
    left = {path.name for path in folder.iterdir()}
    assert left - {"gone"} == {"agent", "asks", "rank"}, "nothing of a request stays"


def test_a_launcher_does_not_wait_for_a_head_that_is_gone(gate: ExecServer, tmp_path: Path) -> None:
    relayed = ExecRelay(gate, "p0", str(tmp_path / "launcher"), lambda _: ("p0", ["/bin/sh", "-c", "cat"]))
    agent = str(tmp_path / "launcher" / "agent")
    waiting = subprocess.Popen([agent, "n1", "cat"])
    wait_until(lambda: list((tmp_path / "launcher").glob("ask.*")))
    relayed.close()
    assert waiting.wait() == 125
    assert run((agent, "n1", "cat"), check=False, timeout_s=None).status == 125, "nor does one that asks later"


PLACE = PodContainer(namespace="n", pod="p", name="ranks")


def test_a_pod_that_asks_without_end_gets_no_thread_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MOST_AT_ONCE", 5)
    ended, closed = threading.Event(), threading.Event()
    running: list[str] = []

    class Asking:
        """The stream to a pod that asks for a thousand daemons at once."""

        is_open = True

        def pump(self, _beside: None, take: Callable[[int, bytes], None]) -> int:
            take(OUTPUT, b"0\0")
            for number in range(1, 1000, 10):
                take(OUTPUT, b"".join(b"%d\nhost\ncmd\n\0" % each for each in range(number, number + 10)))
            closed.wait()
            return 0

        def send(self, data: bytes) -> None:
            pass

        def close(self) -> None:
            closed.set()

    class Served:
        """A command that runs until the test ends."""

        def pump(self, _beside: None, _take: Callable[[int, bytes], None]) -> int:
            running.append(threading.current_thread().name)
            ended.wait()
            return 0

        def close(self) -> None:
            pass

    class Streams:
        """The relay's stream first, then those of what it starts."""

        def start(self, pod: str, _argv: Sequence[str]) -> Any:
            return Asking() if pod == "first" else Served()

    before = threading.active_count()
    relayed = ExecRelay(cast("ExecServer", Streams()), "first", "/launch", lambda _: ("p0", ["true"]))
    closed.wait()
    assert threading.active_count() - before <= relay.MOST_AT_ONCE + 1
    ended.set()
    relayed.close()
    assert len(running) <= relay.MOST_AT_ONCE


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


def session_of(client: Client) -> ExecSession:
    return ExecSession(Api(client), PLACE, ("true",))  # type: ignore[arg-type]


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    made = [Client() for _ in range(3)]
    yield made
    for each in made:
        each.far.close()
        each.stream.close()


def test_closing_a_stream_ends_the_thread_that_reads_and_only_then_its_number_is_free(clients: list[Client]) -> None:
    client = clients[0]
    session, taken = session_of(client), list[bytes]()
    with ThreadPoolExecutor(max_workers=1) as pool:
        ended = pool.submit(session.pump, None, lambda _, data: taken.append(data))
        client.far.sendall(b"out")
        wait_until(lambda: taken == [b"out"])
        number = client.stream.fileno()
        before = os.fstat(number).st_ino
        session.close()
        assert ended.result() == 255, "no status was told"
    assert client.stream.fileno() == -1, "who read has closed it"
    with suppress(OSError):
        assert os.fstat(number).st_ino != before
    session_of(clients[1]).close()
    assert clients[1].stream.fileno() == -1, "nobody reads it"


def test_a_doorway_keeps_as_many_shells_as_are_asked_for_and_uses_them_first(clients: list[Client]) -> None:
    api: Any = Api(*clients)
    doorway = ExecPool(api, PLACE)
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
