"""End or stop this process at a stated point of its work, so that tests need not guess the right moment.

`TARE_FAULT` is a comma-separated list of `POINT[:N][:SIGNAL]`: when this process reaches a point for the N-th time
(the first unless stated), it sends itself the signal (KILL unless stated). Without the variable nothing happens.
CONTRIBUTING.md lists the points.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from typing import Final

from tare.errors import RefusedError

VARIABLE: Final = "TARE_FAULT"
POINTS: Final = (
    "lab:held",
    "lab:up",
    "pods:deployed",
    "round:ready",
    "launch:started",
    "turns:seated",
    "store:after-samples",
    "store:after-trial",
    "lab:before-down",
    "lab:after-down",
)
SIGNALS: Final = ("KILL", "TERM", "INT", "STOP")

_reached: Counter[str] = Counter()
_lock: Final = threading.Lock()


def reach(point: str) -> None:
    """Note that this process has reached a point; end, interrupt or stop it if `TARE_FAULT` asks for it."""
    stated = os.environ.get(VARIABLE)
    if not stated:
        return
    asked = parse(stated)
    with _lock:
        _reached[point] += 1
        number = asked.get((point, _reached[point]))
    if number is not None:
        os.kill(os.getpid(), number)


def parse(stated: str) -> dict[tuple[str, int], signal.Signals]:
    """Return the signal for each point and number of times; raise `RefusedError` for a point that does not exist."""
    asked = {}
    for item in stated.split(","):
        place, part, *more = (*item.strip().split(":"), "")
        point, words = f"{place}:{part}", [word for word in more if word]
        count = int(words.pop(0)) if words and words[0].isdecimal() else 1
        name = words.pop(0) if words else "KILL"
        if point not in POINTS or name not in SIGNALS or words:
            raise RefusedError(
                f"{VARIABLE} has {item!r}, which is not POINT[:N][:SIGNAL]",
                remedy=f"the points are {', '.join(POINTS)}; the signals are {', '.join(SIGNALS)}",
            )
        asked[point, count] = signal.Signals[f"SIG{name}"]
    return asked
