"""A pod that asks the head without end is cut off, and the gate goes on for the others.

A pod is a process of this machine here: what the API server would carry goes through pipes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from integration.live import live
from tare.clusters.pods import relay
from tare.clusters.pods.gate import ExecServer
from tare.clusters.pods.relay import AGENT, ExecRelay
from tare.clusters.pods.session import OUTPUT
from tare.errors import InfrastructureError
from unit.clusters.pods.test_gate import LocalDoorway, entered
from waiting import wait_until

pytestmark = live()
ASKS = {
    "requests, and hears no answer": "b'0\\0' + b''.join(b'%d\\nhost\\ncmd\\n\\0' % n for n in range(1, 3000))",
    "bytes that are no request": "b'x' * 65536",
    "words that are none": "b'0\\0' + b'\\xff\\n' * 9999 + b'\\0' + b'--rank\\n-1\\nx\\n\\0' * 999",
}
FLOOD = "import os\nwhile True: os.write(1, {})"


class Asking:
    """The stream to a hostile pod: it asks until its stream is closed, and reads nothing."""

    def __init__(self, what: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", FLOOD.format(ASKS[what])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pipesize=4096,
            stderr=subprocess.DEVNULL,
        )
        self.taken = 0

    @property
    def is_open(self) -> bool:
        return self.process.poll() is None

    def pump(self, beside: None, take: Callable[[int, bytes], None]) -> int:
        assert self.process.stdout
        with self.process.stdout as stream:
            while data := os.read(stream.fileno(), 1 << 16):
                self.taken += len(data)
                take(OUTPUT, data)
        return self.process.wait()

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin
        self.process.stdin.close()


class Doorway(LocalDoorway):
    """The way to a pod whose launcher is hostile."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.asking = Asking(what)

    def start(self, argv: Sequence[str]) -> Any:
        return self.asking if AGENT in argv else super().start(argv)


@pytest.mark.parametrize("what", ASKS)
def test_a_pod_that_asks_without_end_is_cut_off_and_takes_nothing_from_the_others(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MOST_AT_ONCE", 20)
    before = set(threading.enumerate())
    gate = ExecServer(tmp_path)
    doorway = Doorway(what)
    gate.add("evil", doorway)  # type: ignore[arg-type]
    gate.add("p0", LocalDoorway())  # type: ignore[arg-type]
    most: list[int] = []

    def start(words: list[str]) -> tuple[str, list[str]]:
        most.append(threading.active_count() - len(before))
        return "p0", ["true"]

    try:
        with suppress(InfrastructureError):  # it may be cut off before it is ready
            ExecRelay(gate, "evil", "/launch", start)
        wait_until(lambda: not doorway.asking.is_open, "the end of its stream")
        assert max(most, default=0) <= relay.MOST_AT_ONCE + 3
        assert entered(gate, "p0", "echo", "well").stdout == "well\n"
    finally:
        gate.close()
    wait_until(lambda: set(threading.enumerate()) <= before, "the end of all that it began")
