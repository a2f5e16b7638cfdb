"""Read the facts that launches of a cell recorded: MPI library, network, loaded libraries, rights of ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from tare.analysis.summary.loaded_libraries import files_of
from tare.model import Trial
from tare.system.node.allowed import OF_POD

LaunchFacts = Mapping[tuple[str, str], frozenset[str]]
"""The texts that a cell's launches recorded, by the kind and the name of the fact."""

MOST: Final = 200
"""Most facts of a cell; tare's own have some twenty."""

_RIGHTS: Final[Mapping[str, str]] = {
    "capabilities": "capabilities",
    "seccomp": "seccomp",
    "no_new_privs": "no new privileges",
    "speculation_store_bypass": "speculative store bypass",
    "limits": "limits",
}
_PASSED_OVER: Final = ("subnet", "port")
"""Parts of the names of facts that have another value in each run, such as subnets and ports."""


def launch_facts(launches: Sequence[Trial]) -> LaunchFacts:
    """Return what the launches of a cell recorded; facts of ranks are those of the first launch that has any."""
    found: dict[tuple[str, str], set[str]] = {}
    first = next((trial for trial in launches if trial.ranks), None)
    everything = [*_of_launches(launches), *(_of_ranks(first) if first else ())]
    for kind, name, text in everything:
        if text and (len(found) < MOST or (kind, name) in found):
            found.setdefault((kind, name), set()).add(" ".join(text.split()))
    return {key: frozenset(texts) for key, texts in found.items()}


def _of_launches(launches: Sequence[Trial]) -> Iterator[tuple[str, str, str]]:
    for library in {trial.mpi_library for trial in launches}:
        yield "mpi", "MPI library", library
    seen = set()
    for trial in launches:
        for item in trial.facts.items():
            if item not in seen and not any(word in item[0] for word in _PASSED_OVER):
                seen.add(item)
                kind = "isolation" if item[0].startswith(OF_POD) else "link"
                yield "transport" if item[0] == "transport" else kind, item[0], item[1]


def _of_ranks(trial: Trial) -> Iterator[tuple[str, str, str]]:
    for library, files in files_of(trial.ranks).items():
        if "; " not in files:
            yield "libraries", f"loaded {library}", PurePosixPath(files).name
    rights = trial.ranks[0].rights
    for key, name in _RIGHTS.items():
        yield "isolation", name, rights.get(key, "")
