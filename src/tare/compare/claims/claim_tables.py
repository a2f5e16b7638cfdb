"""Show judged claims: a table on the terminal, and one in Markdown. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from tare.compare.claims.model import Claim, ClaimVerdict, Judged, Paper
from tare.compare.claims.wording import contrast_words, holds_if
from tare.model import Estimate
from tare.model.text import printable, without_html
from tare.report import units
from tare.report.verdicts import VerdictStyle

LOOKS: Final[Mapping[ClaimVerdict, VerdictStyle]] = {
    ClaimVerdict.REPRODUCED: VerdictStyle("✓", "+", "no-cost", "green", "the claim holds here"),
    ClaimVerdict.CONTRADICTED: VerdictStyle("✗", "x", "costs", "red", "the claim does not hold here"),
    ClaimVerdict.UNDECIDED: VerdictStyle(
        "?", "?", "inconclusive", "yellow", "neither is shown, or it was not measured"
    ),
    ClaimVerdict.UNTESTABLE: VerdictStyle(
        "–", "-", "unavailable", "dim", "something is missing that this machine lacks"
    ),
}
MOST: Final = 3
"""As many comparisons of a claim are listed in a table."""


class ClaimsReport:
    """The claims of a publication with their verdicts, for the terminal."""

    def __init__(self, paper: Paper, judged: Sequence[Judged]) -> None:
        self._paper, self._judged = paper, judged

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a line on the publication, each claim with what decides it, and the counts."""
        yield Text(printable(f"{self._paper.title} ({self._paper.source})"), style="bold")
        for each in self._judged:
            number, place, says, verdict, figure, why = map(printable, _cells(each))
            yield Text(f"{number}  {verdict}", style=LOOKS[each.verdict].style)
            yield Padding(Text(f"{says} ({place})"), (0, 0, 0, 2))
            here = f"here {figure}; {why}" if figure else why
            yield Padding(Text(here, style="dim"), (0, 0, 0, 2))
        yield counts_of(self._judged)


def counts_of(judged: Iterable[Judged]) -> str:
    """Return how many claims have which verdict, as a sentence."""
    counts = Counter(each.verdict for each in judged)
    listed = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in ClaimVerdict)
    return f"{sum(counts.values())} claims: {listed}."


def markdown(paper: Paper, judged: Sequence[Judged]) -> Iterator[str]:
    """Yield the lines of a section on a publication: its conditions, a table of its claims, the counts."""
    yield f"## papers/{_line(f'{paper.name}: {paper.title}')}"
    yield ""
    yield f"Unless a line says otherwise: {_line(paper.conditions)}"
    yield ""
    yield "| claim | place | it says | conditions | holds here if | verdict | measured | why |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in judged:
        *_, verdict, figure, why = map(cell_text, _cells(each))
        yield f"| {' | '.join(stated_cells(each.claim))} | {verdict} | {figure} | {why} |"
    yield ""
    yield counts_of(judged)


def stated_cells(claim: Claim) -> tuple[str, ...]:
    """Return the cells of a row that the file of claims has: number, place, statement, conditions, what is tested."""
    note = f"{claim.note[:1].upper()}{claim.note[1:]}"
    asked = holds_if(claim, most=MOST)
    holds = f"{asked}. {note}" if asked and note else asked
    return tuple(map(cell_text, (claim.number, claim.place, claim.says, claim.conditions, holds)))


def measured_text(each: Judged) -> str:
    """Return the figure that decides a claim, after what was compared for it; nothing without one."""
    figure = "" if each.estimate is None else figure_text(each.estimate, counts=each.counts)
    return f"{contrast_words(each.contrast)}: {figure}" if each.contrast is not None else figure


def _cells(each: Judged) -> tuple[str, ...]:
    """Return the parts of a row: number, place, statement, verdict, our figure, why."""
    figure = measured_text(each)
    sure = "" if each.p_holm is None else f"; p = {each.p_holm:.1g} after Holm"
    changed = f"; changed: {each.claim.changed}" if each.claim.changed else ""
    ran = f" ({each.conditions})" if each.conditions else ""
    claim = each.claim
    return claim.number, claim.place, claim.says, each.verdict.value, figure, f"{each.why}{ran}{sure}{changed}"


def figure_text(estimate: Estimate, *, counts: bool) -> str:
    """Return a figure with its interval, as `+59 % [55, 63]`, or for counts `12 [10, 14]`."""
    if not counts:
        return str(units.overhead_interval(estimate))
    return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"


def cell_text(text: str) -> str:
    """Return a text as a cell of a Markdown table."""
    return re.sub(r"\\*\|", r"\\|", _line(text))


def _line(text: str) -> str:
    """Return a text of a file of claims as a line of Markdown; code and emphasis stay, links and mentions do not."""
    return re.sub(r"(?<!\w)@(?=\w)", "@<!-- -->", without_html(text)).replace("](", "]\\(")
