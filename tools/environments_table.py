"""Write the table of docs/environments.md that says which runtime, network and launch go together, as the code has it.

Without an argument it writes the table between its markers; with --check it ends with 1 where it is another.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.model import Environment, Launching, Placement, Share
from tare.networks import NETWORKS
from tare.plan.composition import refuse
from tare.runtimes import RUNTIMES

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "environments.md"
BEGIN: Final = "<!-- tools/environments_table.py writes from here -->\n"
END: Final = "<!-- to here -->\n"
IMAGE: Final = "debian-openmpi"
SHAPES: Final = {
    "1": Placement(ranks_per_node=2),
    "pod": Placement(ranks_per_node=2, containers_per_node=2),
    "own": Placement(ranks_per_node=2, containers_per_node=2, share=Share.NONE),
}
"""One container a node, several in one pod, several with a pod (and an address) each."""


def names(family: object) -> list[str]:
    """Return the names of a family of plug-ins, without those that tests use."""
    return [name for name in family if not name.startswith("fake")]  # type: ignore[attr-defined]


def shapes(runtime: str, network: str, way: Launching) -> str:
    """Return what works, as `1, pod, own`; `(one node)` after it where two nodes do not."""
    plugin = RUNTIMES[runtime]
    environment = Environment(
        name="it", runtime=runtime, network=network, image=IMAGE if plugin.needs_image else "", launch=way
    )
    offered = SHAPES if plugin.makes_containers else {"1": SHAPES["1"]}
    for nodes, note in ((2, ""), (1, " (one node)")):
        good = [name for name, shape in offered.items() if refuse(environment, on(shape, nodes)) is None]
        if good:
            return ", ".join(good) + note
    return "-"


def on(placement: Placement, nodes: int) -> Placement:
    """Return a placement on so many nodes."""
    return replace(placement, nodes=nodes)


def table() -> str:
    """Return the table: a row for each runtime and those of its networks that are alike."""
    lines = [
        f"| runtime | network | {' | '.join(f'`{way}`' for way in Launching)} |",
        f"|---|---|{'---|' * len(Launching)}",
    ]
    for runtime in names(RUNTIMES):
        alike: dict[tuple[str, ...], list[str]] = {}
        for network in names(NETWORKS):
            cells = tuple(shapes(runtime, network, way) for way in Launching)
            alike.setdefault(cells, []).append(f"`{network}`")
        for cells, networks in alike.items():
            if set(cells) != {"-"}:
                lines.append(f"| `{runtime}` | {', '.join(networks)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check the table and return the exit code."""
    text = PAGE.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        print(f"{PAGE.name} has no place for the table: {BEGIN.strip()} ... {END.strip()}", file=sys.stderr)
        return 1
    new = f"{head}{begin}\n{table()}\n{end}{tail}"
    if arguments == ["--check"]:
        if new != text:
            print(f"the table of {PAGE.name} is not what the code says: tools/environments_table.py", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
