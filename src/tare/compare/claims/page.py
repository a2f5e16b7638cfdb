"""Write judged claims as one HTML page that opens offline, in the report's look, and reads without JavaScript."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from tare.compare.claims.claim_tables import LOOKS, counts_of, figure_text
from tare.compare.claims.drawing import drawing
from tare.compare.claims.model import ClaimVerdict, Here, Judged, Paper, Test, Undecided
from tare.compare.claims.wording import contrast_words, holds_if, words
from tare.model.text import printable
from tare.report import embed, units
from tare.report.jinja import templates
from tare.report.plots.bars import WIDTH, picture

DECIDED: Final = (ClaimVerdict.REPRODUCED, ClaimVerdict.CONTRADICTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A publication: its claims, how many have which verdict, and how many of those marked "yes" are decided.

    `rows` are what the template shows of each claim; texts are safe to print, "" is nothing.
    """

    name: str
    title: str
    conditions: str
    judged: Sequence[Judged]
    rows: tuple[Mapping[str, object], ...]

    @property
    def counts(self) -> Counter[ClaimVerdict]:
        """Return how many claims have which verdict."""
        return Counter(each.verdict for each in self.judged)

    @property
    def decidable(self) -> tuple[int, int]:
        """Return how many of the claims marked "yes" are decided, and how many claims are marked so."""
        marked = [each.verdict in DECIDED for each in self.judged if each.claim.here is Here.YES]
        return sum(marked), len(marked)

    @property
    def shares(self) -> Markup:
        """Return a bar of the shares of verdicts."""
        return shares(self.counts)


def claims_page(of_paper: Sequence[tuple[Paper, Sequence[Judged]]]) -> str:
    """Return judged claims of publications as an HTML document."""
    tables = [_table(paper, judged) for paper, judged in of_paper]
    everything = [each for _, judged in of_paper for each in judged]
    script = embed.asset("tare.report", "templates/report.js")
    styles = [
        embed.asset("tare.report", "templates/report.css"),
        embed.asset("tare.compare.claims", "templates/claims.css"),
    ]
    counts = Counter(each.verdict for each in everything)
    decided, marked = (sum(column) for column in zip((0, 0), *(table.decidable for table in tables), strict=True))
    return templates("tare.compare.claims").get_template("claims.html.j2").render(
        policy=embed.policy(scripts=(script,), styles=styles),
        script=script,
        styles=styles,
        tables=tables,
        headline=counts_of(everything),
        counts=counts,
        decided=decided,
        marked=marked,
        shares=shares(counts),
        looks=LOOKS,
        here=[each for each in Here if any(judged.claim.here is each for judged in everything)],
        results=list(dict.fromkeys(printable(each.results) for each in everything if each.results)),
        slug=lambda text: str(text).replace(" ", "-"),
    )  # fmt: skip


def shares(counts: Mapping[ClaimVerdict, int]) -> Markup:
    """Return a bar of the shares of verdicts; the numbers are beside it."""
    total, at = sum(counts.values()), 0.0
    parts = []
    for verdict in ClaimVerdict:
        width = WIDTH * counts.get(verdict, 0) / (total or 1)
        if width:
            drawn = max(0.5, width - 1)
            parts.append(
                f'<g class="v-{LOOKS[verdict].css}"><rect x="{at:.1f}" y="2" width="{drawn:.1f}" height="9"/></g>'
            )
        at += width
    return picture(parts, css="bar shares")


def _table(paper: Paper, judged: Sequence[Judged]) -> PaperTable:
    return PaperTable(
        name=printable(paper.name),
        title=printable(f"{paper.title} ({paper.source})"),
        conditions=printable(paper.conditions),
        judged=judged,
        rows=tuple(_row(each, paper) for each in judged),
    )


def _row(each: Judged, paper: Paper) -> Mapping[str, object]:
    claim, estimate, region = each.claim, each.estimate, each.region
    return {
        "number": printable(claim.number),
        "place": printable(claim.place),
        "says": printable(claim.says),
        "marks": f"{claim.kind.value}; decidable here: {claim.here.value}",
        "note": printable(claim.note),
        "published": printable(claim.conditions or ("as stated above" if paper.conditions else "not stated")),
        "ran": printable(each.conditions),
        "results": printable(each.results),
        "verdict": each.verdict,
        "here": claim.here,
        "compared": printable(contrast_words(each.contrast)) if each.contrast is not None else "",
        "figure": "" if estimate is None else figure_text(estimate, counts=each.counts),
        "claimed": words(region, counts=each.counts) if region is not None else "",
        "picture": drawing(estimate, region, counts=each.counts) if estimate and region else "",
        "p": "" if each.p_holm is None else units.p_value(each.p_holm),
        "why": "" if isinstance(claim.by, Undecided) else printable(each.why),
        "tested": printable(holds_if(claim)),
        "decides": printable(decides(each)),
        "changed": printable(claim.changed),
    }


def decides(each: Judged) -> str:
    """Say what would decide a claim that is not decided, "" for others."""
    by = each.claim.by
    if each.verdict in DECIDED:
        return ""
    if isinstance(by, Undecided):
        return f"{by.what}; study {by.study} tests it then" if by.study else by.what
    if not isinstance(by, Test):
        return ""
    if not each.results:
        return f"results of studies/{by.study}.yaml, named with --on"
    if each.verdict is ClaimVerdict.UNTESTABLE:
        return f"study {by.study} where this can run"
    if each.p_holm is None and by.rebuilt:
        return f"study {by.study} with the product itself, not with its data path rebuilt"
    if each.p_holm is None and by.cores:
        return f"study {by.study} on {by.cores} cores or more"
    return f"more rounds of study {by.study}"
