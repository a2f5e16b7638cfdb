"""Write the tables of docs/environments.md that say which runtime, network and launch go together, as the code has it.

Without an argument it writes the tables between their markers; with --check it ends with 1 where they are others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tare.model import Environment, Launching, Placement, Share
from tare.networks import NETWORKS
from tare.runtimes import RUNTIMES
from tare.study.plan.composition import refuse

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


OF_SITES: Final = {"enroot", "sarus", "sarus-mpi", "shifter", "kubernetes"}
"""Runtimes with their node's network, or the cluster's, and no other."""
Shapes = frozenset[str]


def names(family: object) -> list[str]:
    """Return the names of a family of plug-ins, without those that tests use."""
    return [name for name in family if not name.startswith("fake")]  # type: ignore[attr-defined]


def shapes(runtime: str, network: str, way: Launching, nodes: int) -> Shapes:
    """Return the shapes that work on a number of nodes."""
    plugin = RUNTIMES[runtime]
    environment = Environment(
        name="it", runtime=runtime, network=network, image=IMAGE if plugin.needs_image else "", launch=way
    )
    offered = SHAPES if plugin.makes_containers else {"1": SHAPES["1"]}
    return frozenset(
        name for name, shape in offered.items() if refuse(environment, replace(shape, nodes=nodes)) is None
    )


def table(heads: Iterable[str], rows: Mapping[str, tuple[str, ...]]) -> str:
    """Return a table in which names with equal rows share one."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, row in rows.items():
        alike.setdefault(row, []).append(f"`{name}`")
    columns = list(heads)
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {', '.join(group)} | {' | '.join(row)} |" for row, group in alike.items()]
    return "\n".join(lines) + "\n"


def tables() -> str:
    """Return a table by runtime and one by network, and hold that a pair can do what both have."""
    runtimes, networks = names(RUNTIMES), names(NETWORKS)
    two, one = (
        {(r, n, way): shapes(r, n, way, nodes) for r in runtimes for n in networks for way in Launching}
        for nodes in (2, 1)
    )
    found = {key: two[key] or one[key] for key in two}
    ways = {(r, way): Shapes().union(*(found[r, n, way] for n in networks)) for r in runtimes for way in Launching}
    by_network = {}
    for network in networks:
        users = [r for r in runtimes if any(found[r, network, way] for way in Launching)]
        offered = Shapes().union(*(found[r, network, way] for r in users for way in Launching))
        for user in users:
            for way in Launching:
                assert found[user, network, way] == ways[user, way] & offered, (user, network, way)
        several = any(two[r, network, way] for r in users for way in Launching)
        by_network[network] = (whose(users), "yes" if "own" in offered else "no", "any" if several else "one")
    by_runtime = {r: tuple(ordered(ways[r, way]) for way in Launching) for r in runtimes}
    return (
        table(("runtime", *(f"`{way}`" for way in Launching)), by_runtime)
        + "\n"
        + table(("network", "runtimes", "`own`", "nodes"), by_network)
    )


def ordered(found: Shapes) -> str:
    """Return shapes as they are written."""
    return ", ".join(name for name in SHAPES if name in found) or "-"


def whose(runtimes: Sequence[str]) -> str:
    """Return the runtimes that can use a network."""
    if set(runtimes) == {*names(RUNTIMES)}:
        return "all"
    if set(runtimes) == {*names(RUNTIMES)} - OF_SITES:
        return f"all but {', '.join(f'`{name}`' for name in names(RUNTIMES) if name in OF_SITES)}"
    return ", ".join(f"`{name}`" for name in runtimes)


def main(arguments: list[str]) -> int:
    """Write or check the tables and return the exit code."""
    text = PAGE.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        print(f"{PAGE.name} has no place for the tables: {BEGIN.strip()} ... {END.strip()}", file=sys.stderr)
        return 1
    new = f"{head}{begin}\n{tables()}\n{end}{tail}"
    if arguments == ["--check"]:
        if new != text:
            print(f"the tables of {PAGE.name} are not what the code says: tools/environments_table.py", file=sys.stderr)
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
