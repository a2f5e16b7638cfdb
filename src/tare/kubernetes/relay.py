"""Let an MPI's launcher in a pod start daemons in others: it has no rights there, so the head does it.

The launcher calls a small shell script as if it were rsh. The script leaves the request in its pod's folder and waits;
a stream that the head keeps open reads the requests and takes back the exit statuses. Nothing listens on a network, and
no pod has a token for the API.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final, cast

from tare.errors import InfrastructureError
from tare.kubernetes.gate import Gate
from tare.kubernetes.session import OUTPUT, Session

AGENT: Final = """#!/bin/sh
# tare: an MPI's launcher calls this as rsh; the head starts the command in the other pod
folder=${0%/*}
mkfifo "$folder/end.$$" || exit 125
for word; do printf '%s\\n' "$word"; done > "$folder/ask.$$"
printf '%s\\n' "$$" > "$folder/asks"
read -r status < "$folder/end.$$"
rm -f "$folder/end.$$" "$folder/ask.$$"
exit "${status:-125}"
"""
"""The launcher's agent. A command of a launcher has no line breaks."""

MAKES: Final = 'mkdir -p "$0" && printf %s "$1" > "$0/agent" && chmod 700 "$0/agent" || exit 1\n'
"""Writes the agent into the folder."""

LISTENS: Final = """cd "$0" || exit 1
rm -f asks; mkfifo asks || exit 1
{ while read -r number status; do [ -p "end.$number" ] && echo "$status" > "end.$number"; done; kill $$; } <&3 &
exec 3<&- 4<>asks
printf '0\\0'
while read -r number <&4; do printf '%s\\n' "$number"; cat "ask.$number"; printf '\\0'; done
"""
"""Prints each request: its number and the agent's words, a line each, and a zero byte. Reads numbers with statuses.

The first is number 0, without words: from then on requests are heard."""
READY_S: Final = 30.0
"""How long that may take: a shell is started in the pod."""

LONGEST: Final = 1 << 20
"""The most bytes of a request: a pod is not trusted with the head's memory."""

Start = Callable[[list[str]], tuple[str, list[str]]]
"""Turns the words of a launcher's agent into a pod and a command."""


class Relay:
    """The requests of the launchers in one pod; `start` says what is done for them."""

    def __init__(self, gate: Gate, pod: str, folder: str, start: Start) -> None:
        self._gate = gate
        self._start = start
        self._ends = threading.Lock()
        self._left = bytearray()
        self._heard = threading.Event()
        script = f"exec 3<&0; {MAKES}{LISTENS}"
        self._session = cast("Session", gate.start(pod, ("/bin/sh", "-c", script, folder, AGENT)))
        threading.Thread(target=self._listen, name="relay", daemon=True).start()
        if not self._heard.wait(READY_S) or not self._session.is_open:
            self.close()
            raise InfrastructureError(
                f"requests of a launcher in pod {pod} cannot be heard: {folder} cannot be used there"
            )

    def close(self) -> None:
        """End the stream."""
        self._session.close()

    def _listen(self) -> None:
        with contextlib.suppress(Exception):  # the stream is closed, or the pod is gone
            self._session.pump(None, self._take)
        self._heard.set()  # there is nothing more to wait for

    def _take(self, channel: int, data: bytes) -> None:
        if channel != OUTPUT:
            return
        self._left += data
        if len(self._left) > LONGEST:  # no launcher asks for so much
            self.close()
            return
        while b"\0" in self._left:
            request, _, rest = self._left.partition(b"\0")
            self._left = bytearray(rest)
            number, *words = request.decode(errors="replace").removesuffix("\n").split("\n")
            if number == "0":
                self._heard.set()
                continue
            threading.Thread(target=self._serve, args=(number, words), name="relayed", daemon=True).start()

    def _serve(self, number: str, words: list[str]) -> None:
        status = 125
        with contextlib.suppress(Exception):  # the launcher is told a status that says so
            pod, command = self._start(words)
            session = self._gate.start(pod, command)
            try:
                status = session.pump(None, lambda _channel, _data: None)
            finally:
                session.close()
        with self._ends, contextlib.suppress(Exception):
            self._session.send(f"{number} {status}\n".encode())
