"""Which runtimes and networks can run together, and what contract tests make environments of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodes import make_node
from tare.model import Environment
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES

GOLDEN = Path(__file__).parents[1] / "golden" / "compositions.txt"
"""On how many nodes each network (a row) can run with each runtime (a column): `1`, `2`, `1,2`, or `-` for none."""
PAIRS = [(runtime, network) for runtime in RUNTIMES for network in NETWORKS]


def allowed() -> dict[tuple[str, str], set[int]]:
    """Return on how many nodes each pair can run, as the golden file has it."""
    (_, *runtimes), *rows = (line.split() for line in GOLDEN.read_text().splitlines())
    return {
        (runtime, network): {int(nodes) for nodes in cell.split(",") if nodes != "-"}
        for network, *cells in rows
        for runtime, cell in zip(runtimes, cells, strict=True)
    }


def as_table(possible: Mapping[tuple[str, str], set[int]]) -> str:
    """Write what `allowed` reads."""
    rows = [["network", *sorted(RUNTIMES)]]
    for network in sorted(NETWORKS):
        cells = (",".join(map(str, sorted(possible[runtime, network]))) or "-" for runtime in sorted(RUNTIMES))
        rows.append([network, *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


ON_NODES = {pair: allowed().get(pair, set()) for pair in PAIRS}
SUPPORTED = {pair for pair, nodes in ON_NODES.items() if 2 in nodes}
ONE_NODE = {pair for pair, nodes in ON_NODES.items() if nodes == {1}}

NODE = make_node(cores=(2, 3), pid=0)


def is_sentence(text: str) -> bool:
    """Tell whether a text is one line that a user can read: some words, no traceback, no Python value."""
    return len(text.split()) >= 4 and "\n" not in text and "Traceback" not in text and not re.search(r"[<{]\w+ ", text)


def composed(runtime: str, network: str, **more: Any) -> Environment:
    mpi = "fake" if runtime == "fake" else "openmpi"
    image = "debian-openmpi" if RUNTIMES[runtime].needs_image else ""
    return Environment(name="e", runtime=runtime, network=network, mpi=mpi, image=image, **more)
