"""Let an MPI's launcher in a pod start daemons in others: it has no rights there, so the head does it.

The launcher calls a small shell script as if it were rsh. The script leaves the request in its pod's folder and waits;
a stream that the head keeps open reads the requests and takes back the exit statuses. Nothing listens on a network, and
no pod has a token for the API. Ranks of a pod's further containers are started in the same way.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Final, cast

from tare.clusters.pods.gate import ExecServer, status_of
from tare.clusters.pods.session import OUTPUT, ExecSession
from tare.errors import InfrastructureError

AGENT: Final = """#!/bin/sh
# tare: an MPI's launcher calls this as rsh; the head starts the command in the other pod
folder=${0%/*}
mkfifo "$folder/end.$$" || exit 125
exec 3<> "$folder/end.$$"
for word; do printf '%s\\n' "$word"; done > "$folder/ask.$$"
printf '%s\\n' "$$" 1<> "$folder/asks"
[ -e "$folder/gone" ] || read -r status <&3
rm -f "$folder/end.$$" "$folder/ask.$$"
exit "${status:-125}"
"""
"""The launcher's agent. A command of a launcher has no line breaks."""

RANK: Final = """#!/bin/sh
# tare: starts a rank in its own container of the pod; the first argument is how many ranks a container has
tare_each=$1 tare_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-$PMI_LOCAL_RANK}}
: "${tare_rank:?no MPI told the local rank}"
shift
[ "$tare_rank" -ge "$tare_each" ] || exec "$@"
tare_own=${0%/*}/rank.$$
rm -f "$tare_own".*
mkfifo "$tare_own.out" "$tare_own.err" || exit 125
tare_words=0
for tare_word; do tare_words=$((tare_words + 1)); export "tare_word_$tare_words=$tare_word"; done
export tare_words
export -p > "$tare_own.variables"
cat "$tare_own.out" & out=$!
cat "$tare_own.err" >&2 & errors=$!
trap '[ -s "$tare_own.pid" ] && kill "$(cat "$tare_own.pid")"; exit 143' HUP INT TERM
"${0%/*}/agent" --rank $((tare_rank / tare_each)) "$tare_own" & asked=$!
wait $asked
status=$?
[ -s "$tare_own.pid" ] || kill $out $errors
wait $out $errors
rm -f "$tare_own".*
exit $status
"""
"""The ranks' wrapper. What a rank prints takes a pipe to it, so that the API is in no rank's way."""

BEGINS: Final = """exec < /dev/null > "$0.out" 2> "$0.err"
echo $$ > "$0.pid"
. "$0.variables"
tare_word=1 tare_last=$tare_words
while [ $tare_word -le $tare_last ]; do
  eval "set -- \\"\\$@\\" \\"\\$tare_word_$tare_word\\""
  unset "tare_word_$tare_word"
  tare_word=$((tare_word + 1))
done
unset tare_words
exec "$@"
"""
"""Becomes the rank in its container. The argument is what names of files with its variables and words begin with."""

MAKES: Final = (
    'mkdir -p "$0" && printf %s "$1" > "$0/agent" && printf %s "$2" > "$0/rank" '
    '&& chmod 700 "$0/agent" "$0/rank" || exit 1\n'
)
"""Writes the agent and the ranks' wrapper into the folder."""

LISTENS: Final = """cd "$0" || exit 1
rm -f asks gone; mkfifo asks || exit 1
{
  while read -r number status; do [ -p "end.$number" ] && echo "$status" 1<> "end.$number"; done
  : > gone
  for end in end.*; do [ -p "$end" ] && echo 125 1<> "$end"; done
  kill $$
} <&3 &
exec 3<&- 4<>asks
printf '0\\0'
while read -r number <&4; do printf '%s\\n' "$number"; cat "ask.$number"; printf '\\0'; done
"""
"""Prints each request: its number and the agent's words, a line each, and a zero byte. Reads numbers with statuses.

The first is number 0, without words: from then on requests are heard. When the stream ends, whoever waits gets status
125, and so does who asks afterwards: `gone` says it. FIFOs are opened in both directions, which waits for nobody.
"""
READY_S: Final = 30.0
"""How long that may take: a shell is started in the pod."""

LONGEST: Final = 1 << 20
"""The most bytes of a request: a pod is not trusted with the head's memory."""

MOST_AT_ONCE: Final = 2048
"""The most requests of a pod that are served at a time, each by a thread: more than a pod has ranks."""

OF_RANK: Final = "--rank"
"""Begins what the wrapper asks: to start a rank in the container of a number."""

Start = Callable[[list[str]], tuple[str, list[str]]]
"""Turns the words of a launcher's agent into a pod, or a container by its name in the gate, and a command."""


def rank_of(words: Sequence[str]) -> tuple[int, list[str]] | None:
    """Return the number of a rank's container and the command that becomes the rank; None if no rank asks."""
    if len(words) != 3 or words[0] != OF_RANK or not words[1].isdecimal():
        return None
    return int(words[1]), ["/bin/sh", "-c", BEGINS, words[2]]


class ExecRelay:
    """The requests of the launchers in one pod; `start` says what is done for them."""

    def __init__(self, gate: ExecServer, pod: str, folder: str, start: Start) -> None:
        self._gate = gate
        self._start = start
        self._ends = threading.Lock()
        self._free = threading.Semaphore(MOST_AT_ONCE)
        self._left = bytearray()
        self._heard = threading.Event()
        script = f"exec 3<&0; {MAKES}{LISTENS}"
        self._session = cast("ExecSession", gate.start(pod, ("/bin/sh", "-c", script, folder, AGENT, RANK)))
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
            if not self._free.acquire(blocking=False):  # no launcher asks for so many
                self.close()
                return
            threading.Thread(target=self._serve, args=(number, words), name="relayed", daemon=True).start()

    def _serve(self, number: str, words: list[str]) -> None:
        status = 125
        with contextlib.suppress(Exception):  # the launcher is told a status that says so
            pod, command = self._start(words)
            status = status_of(self._gate.start(pod, command))
        try:
            with self._ends:  # a pod that hears no answers holds the threads that give them
                self._session.send(f"{number} {status}\n".encode())
        except Exception:  # noqa: BLE001 - the launcher would wait for it
            self.close()
        finally:
            self._free.release()
