"""Make the tables of docs/compatibility.md: which MPIs work together. Pure; a test writes them as observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tare.feasibility.compatibility import MpiFacts, Outcome, controls, starts

FILE: Final = "docs/compatibility.md"
MPIS_SHOWN: Final[Mapping[str, MpiFacts]] = {
    "openmpi": MpiFacts(family="openmpi", version=(4, 1), pmix=(4, 2)),
    "openmpi5": MpiFacts(family="openmpi", version=(5, 0), pmix=(5, 0)),
    "mpich": MpiFacts(family="mpich", version=(4, 0)),
    "mpich5": MpiFacts(family="mpich", version=(5, 0)),
}
"""The MPIs of Debian 12 and of tools/mpis, with the versions that decide their compatibility."""

BEGIN: Final = "<!-- {}: written by tests/integration/test_compatibility.py -->"
END: Final = "<!-- end of {} -->"
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The outcome of each (application, launcher), and of each (daemon in a container, launcher)."""

    starts: Mapping[Pair, Outcome]
    controls: Mapping[Pair, Outcome]


def predicted() -> Seen:
    """Return the outcome that `tare.feasibility.compatibility` predicts for every pair."""
    shown = MPIS_SHOWN.items()
    return Seen(
        starts={(a, b): starts(one, other)[0] for a, one in shown for b, other in shown},
        controls={
            (a, b): Outcome.FAILS if controls(other, one) else starts(one, other)[0]
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
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{_table(corner, outcomes)}\n{end}{rest.partition(end)[2]}"
    return text


def _table(corner: str, outcomes: Mapping[Pair, Outcome]) -> str:
    head = [corner, *map(str, MPIS_SHOWN.values())]
    rows = [[str(mpi), *(str(outcomes[name, other]) for other in MPIS_SHOWN)] for name, mpi in MPIS_SHOWN.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
