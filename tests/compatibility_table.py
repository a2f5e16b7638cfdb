"""Make the tables of docs/compatibility.md, as observed: which MPIs work together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tare.study.feasibility.compatibility import JobOutcome, MpiFacts, controls, starts

FILE: Final = "docs/compatibility.md"
MPIS_SHOWN: Final[Mapping[str, MpiFacts]] = {
    "openmpi": MpiFacts(family="openmpi", version=(4, 1), pmix=(4, 2)),
    "openmpi5": MpiFacts(family="openmpi", version=(5, 0), pmix=(5, 0)),
    "mpich": MpiFacts(family="mpich", version=(4, 0)),
    "mpich5": MpiFacts(family="mpich", version=(5, 0)),
}
"""The MPIs of Debian 12 and of tools/mpis, with the versions that decide their compatibility."""

BEGIN: Final = "<!-- {}: written by tests/integration/test_{}compatibility.py -->"
END: Final = "<!-- end of {} -->"
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The outcome of each (application, launcher), and of each (daemon in a container, launcher)."""

    starts: Mapping[Pair, JobOutcome]
    controls: Mapping[Pair, JobOutcome]


def predicted() -> Seen:
    """Return the outcome that `tare.study.feasibility.compatibility` predicts for every pair."""
    shown = MPIS_SHOWN.items()
    return Seen(
        starts={(a, b): starts(one, other)[0] for a, one in shown for b, other in shown},
        controls={
            (a, b): JobOutcome.FAILS if controls(other, one) else starts(one, other)[0]
            for a, one in shown
            for b, other in shown
        },
    )


def written(text: str, seen: Seen) -> str:
    """Return the page with both tables as observed."""
    for name, corner, outcomes in (
        ("starts", "application of \\ launcher of", seen.starts),
        ("controls", "daemon of \\ launcher of", seen.controls),
    ):
        text = _replaced(text, BEGIN.format(name, ""), END.format(name), _table(corner, outcomes))
    return text


def written_by_srun(
    text: str, seen: Mapping[tuple[str, str, str], JobOutcome], pmis: Sequence[str], places: Sequence[str]
) -> str:
    """Return the page with the table of ranks that srun starts, by MPI, PMI and place, as observed."""
    columns = [(pmi, place) for pmi in pmis for place in places]
    head = ["MPI of the ranks", *(f"`--mpi={pmi}` {place}" for pmi, place in columns)]
    rows = [[str(mpi), *(str(seen[name, *column]) for column in columns)] for name, mpi in MPIS_SHOWN.items()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
    return _replaced(text, BEGIN.format("srun", "slurm_"), END.format("srun"), table)


def _replaced(text: str, begin: str, end: str, table: str) -> str:
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"


def _table(corner: str, outcomes: Mapping[Pair, JobOutcome]) -> str:
    head = [corner, *map(str, MPIS_SHOWN.values())]
    rows = [[str(mpi), *(str(outcomes[name, other]) for other in MPIS_SHOWN)] for name, mpi in MPIS_SHOWN.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
