"""Programs whose messages are small and go everywhere: breadth-first search and a query service."""

from __future__ import annotations

import math
from typing import Final

from tare.workloads.declared.declaration import INT_MAX, PACE_PARAMETER, Choice, MiniApp, Parameter, by_rate

# --- Graph500 ---------------------------------------------------------------------------------------------------------


def _edges_of_rank(choice: Choice, ranks: int) -> float:
    return math.ldexp(choice.values["edgefactor"], choice.values["scale"]) / ranks


def _graph500_refuse(choice: Choice, ranks: int) -> str | None:
    scale, room = choice.values["scale"], INT_MAX / 3.0
    most = 1 << (scale - 2)
    if ranks > most:
        return f"graph500 scale {scale} cannot run on {ranks} ranks; allowed: any number up to {most}"
    edges = _edges_of_rank(choice, ranks)
    if edges > room:
        return f"graph500 scale {scale} has {edges:.3g} edges a rank on {ranks} ranks; allowed: up to {room:.3g}"
    return None


def _graph500_memory(choice: Choice, ranks: int) -> float:
    vertices = math.ldexp(1.0, choice.values["scale"])
    making = _edges_of_rank(choice, ranks) * (8.0 + 16.0 + 2.0 * 1.25 * 16.0)
    return making + 22.0 * vertices / ranks + 6.0 * vertices + 32768.0 * (2.0 * ranks + 32.0)


GRAPH500: Final = MiniApp(
    name="graph500",
    description="breadth-first searches in a Kronecker graph, every tree checked",
    rate="TEPS",
    timed="each search alone; the rate is the harmonic mean of edges of the component / time",
    parameters=(
        Parameter(name="scale", meaning="log2 of the number of vertices", usual=16, low=6, high=31, thin=10),
        Parameter(
            name="roots",
            meaning="searches, or as many as there are vertices with an edge",
            usual=64,
            low=1,
            high=1024,
            thin=4,
        ),
        Parameter(name="edgefactor", meaning="edges of the list for each vertex", usual=16, low=1, high=256),
        PACE_PARAMETER,
    ),
    official_pace=460,
    ranks="any up to a quarter of the vertices",
    refuse=_graph500_refuse,
    memory_bytes=_graph500_memory,
    operations=lambda choice, ranks: choice.values["roots"] * ranks * _edges_of_rank(choice, ranks),
    divides=True,
    expected_s=by_rate(15e6, untimed=2.0),
)

# --- KMI --------------------------------------------------------------------------------------------------------------

KMI_LEAST_RANKS: Final = 2
KMI_PROBES: Final = 16384
KMI_ANSWER_BYTES: Final = 16


def _kmi_refuse(choice: Choice, ranks: int) -> str | None:
    if ranks < KMI_LEAST_RANKS:
        return "kmi cannot run on 1 rank, which would have nobody to ask; allowed: 2 and more"
    query, read = choice.values["query_length"], choice.values["length"]
    if query > read:
        return f"kmi query_length={query} is not possible with reads of {read} letters; allowed: up to the length"
    return None


def _kmi_memory(choice: Choice, _: int) -> float:
    values = choice.values
    record = 20.0 + values["length"] / 4.0
    asked = (values["query_length"] + KMI_ANSWER_BYTES) * values["queries"]
    return (
        2.0 * values["reads"] * (3.2 * record + 8.0) + asked + (4 << 20) + KMI_PROBES * (values["query_length"] + 8.0)
    )


KMI: Final = MiniApp(
    name="kmi",
    description="a service that finds strings by their beginning, sorted over ranks",
    rate="queries/s",
    timed="the queries of all ranks, from the first to the last end mark",
    parameters=(
        Parameter(
            name="reads",
            meaning="random reads of a rank; their reverse complements are added, too",
            usual=2048,
            low=16,
            high=100_000_000,
            thin=256,
        ),
        Parameter(name="queries", meaning="random queries of a rank", usual=2048, low=1, high=100_000_000, thin=64),
        Parameter(name="length", meaning="letters of a read", usual=100, low=16, high=256),
        Parameter(name="query_length", meaning="letters of a query", usual=20, low=4, high=256),
    ),
    ranks="2 or more",
    refuse=_kmi_refuse,
    memory_bytes=_kmi_memory,
    operations=lambda choice, ranks: float(choice.values["queries"] * ranks),
    divides=True,
    expected_s=by_rate(20e3, untimed=1.0),
)
