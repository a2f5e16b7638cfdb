"""Records that a launch of one rank writes, and the output that has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

START = {"type": "start", "protocol": 1, "ranks": 1, "mpi_library": "Open MPI 4.1.4", "init_s": 0.1}
RANK = {"type": "rank", "rank": 0, "hostname": "n0", "boot_id": "b0", "pid": 7, "cpus": "0-1", "namespaces": {"net": 1}}
WALL = {"type": "wall", "wall_s": 2.5}
END = {"type": "end", "exit": 0}


def text(*records: Mapping[str, Any]) -> str:
    """Return the lines of records as tare's programs write them."""
    return "".join(f"@tare {json.dumps(record)}\n" for record in records)
