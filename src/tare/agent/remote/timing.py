"""State how long head and node wait for each other, in seconds on a monotonic clock."""

from __future__ import annotations

import os
from typing import Final

SCALE: Final = "TARE_TEST_PATIENCE"
"""The variable by which the tests of faults shorten the times below, on the head and on the nodes."""


def scaled(seconds: float) -> float:
    """Return a time, shortened where a test says so."""
    try:
        return seconds * min(1.0, max(0.01, float(os.environ.get(SCALE, "1"))))
    except ValueError:
        return seconds


LEASE_S: Final = scaled(90.0)
"""A node that hears nothing of its head for so long undoes what was made on it."""
RENEWED_S: Final = scaled(10.0)
"""How often the head renews the lease."""
PROBE_S: Final = round(scaled(15))
PROBES: Final = 5
"""ssh asks an idle server this often, and gives up after so many questions without an answer: after 75 to 90 s. So an
outage of 30 s keeps the connection, and the head learns of a longer one no later than the node."""
CONNECT_S: Final = 15
"""How long a connection, and then the first answer, may take."""
SLOWEST: Final = 100e3
"""Bytes a second by which the archive may arrive on a node."""
ANNOUNCED_S: Final = 5.0
"""After this time it is said that a node has not answered yet."""
ANSWER_S: Final = 900.0
"""How long a call may take; no single one takes as long as importing an image."""
READ_S: Final = 120.0
"""How long a call may take that makes nothing on a node."""
AGAIN_S: Final = scaled(60.0)
"""How long the head tries to reach a node again, when its connection was lost, before it ends the study."""
PAUSE_S: Final = 2.0
"""The pause between two attempts."""
