"""Compare the MPI and fabric libraries that the ranks of each environment had loaded. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from tare.model import Plan, RankPlace, Role, Trial

ABSENT: Final = "not loaded"
BETWEEN: Final = "; "


def differing(plan: Plan, trials: Sequence[Trial]) -> dict[str, dict[str, str]]:
    """Return by environment the files of those libraries in which environments, or ranks of one, differ.

    The first launch of each environment whose ranks reported is taken. Empty if all ranks had loaded the same files.
    """
    names = {cell.key: cell.environment.name for cell in plan.cells if cell.role is not Role.SELF}
    loaded: dict[str, dict[str, str]] = {}
    for trial in trials:
        name = names.get(trial.key.cell)
        if name is not None and name not in loaded and trial.ranks:
            loaded[name] = files_of(trial.ranks)
    libraries = sorted({library for files in loaded.values() for library in files})
    stated = {each: [files.get(each, ABSENT) for files in loaded.values()] for each in libraries}
    unlike = [each for each, texts in stated.items() if len(set(texts)) > 1 or BETWEEN in texts[0]]
    return {name: {each: files.get(each, ABSENT) for each in unlike} for name, files in loaded.items() if unlike}


def files_of(ranks: Sequence[RankPlace]) -> dict[str, str]:
    """Return the files of each library by its name without a version, rank by rank where they differ."""
    of_rank = {rank.rank: {stem(path): path for path in rank.libraries} for rank in ranks}
    found = {}
    for library in sorted({name for files in of_rank.values() for name in files}):
        groups: dict[str, list[int]] = {}
        for rank, files in of_rank.items():
            groups.setdefault(files.get(library, ABSENT), []).append(rank)
        (only, *others) = groups
        found[library] = (
            BETWEEN.join(f"rank {_first(ranks)}: {path}" for path, ranks in groups.items()) if others else only
        )
    return found


def stem(path: str) -> str:
    """Return the name of a library without its version: `libmpi` of `/usr/lib/libmpi.so.40.30.4`."""
    return PurePosixPath(path).name.partition(".so")[0]


def _first(ranks: Sequence[int]) -> str:
    return f"{ranks[0]} and {len(ranks) - 1} more" if len(ranks) > 1 else str(ranks[0])
