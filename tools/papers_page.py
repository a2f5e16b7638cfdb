#!/usr/bin/env python3
"""Write what results say of a paper's claims into docs/papers/003.md: `tools/papers_page.py 003 004`, or `--texts 003`.

Results are those of `make papers-003`, in results/papers/003/STUDY; all of its studies must be there. Written is what
is between the page's markers: when and where it was run, its studies with their rounds and launches, the counts, and
the claims by verdict. The claims of a paper are judged together (Holm), as `make papers-003` judges them.
With `--texts` no results are read: what the file of claims says is written again, and verdicts and figures stay.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

REPOSITORY: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tools")]

from papers import studies_for  # noqa: E402 - found through the line above

from tare.analysis.summary.disturbance import is_disturbed  # noqa: E402 - found through the line above
from tare.analysis.summary.select import select  # noqa: E402 - found through the line above
from tare.cli.afterwards.claims_command import measured_in  # noqa: E402 - found through the line above
from tare.compare.claims import ClaimVerdict, Judged, Paper, judge, read_paper  # noqa: E402 - found through the line above
from tare.compare.claims.claim_tables import cell_text, measured_text  # noqa: E402 - found through the line above
from tare.compare.claims.model import Claim, Here  # noqa: E402 - found through the line above
from tare.model import Completed  # noqa: E402 - found through the line above
from tare.store.writer import read_only  # noqa: E402 - found through the line above

PAGES: Final = REPOSITORY / "docs" / "papers"
RESULTS: Final = REPOSITORY / "results" / "papers"
TEXTS: Final = "--texts"
BEGIN: Final = "<!-- tools/papers_page.py writes from here -->\n"
END: Final = "<!-- to here -->\n"
HEAD: Final = "| claim | it says | measured |\n|---|---|---|\n"
CONDITIONS: Final = "The paper's conditions, unless a claim has others: "
UNTESTED: Final = " cannot be tested here: "


class Outcome(NamedTuple):
    """What results say of a claim, as its page has it."""

    verdict: str
    measured: str = ""


def section(name: str) -> str:
    """Return what a paper's page has of its claims; raise `SystemExit` if a study of them has no results."""
    studies = studies_for(name)
    folders = [RESULTS / name / study for study in studies]
    if missing := [study for study, folder in zip(studies, folders, strict=True) if not folder.is_dir()]:
        raise SystemExit(f"results/papers/{name} lacks {', '.join(missing)}: make papers-{name}")
    paper = read_paper(REPOSITORY / "claims" / f"{name}.yaml")
    judged = judge(paper.claims.values(), measured_in(folders, set(studies)))
    outcomes = {each.claim.number: Outcome(each.verdict.value, cell_text(measured_text(each))) for each in judged}
    return "\n".join([*run_of(name, folders), "", *counted(judged), table(paper, outcomes)])


def table(paper: Paper, outcomes: Mapping[str, Outcome]) -> str:
    """Return a table for each verdict, the numbers of claims that were not tested, and the conditions of the paper."""
    untested = [number for number, outcome in outcomes.items() if outcome.verdict == ClaimVerdict.UNTESTABLE.value]
    needs = f"`tare claims {paper.name}` says what each of them needs."
    lines = [
        f"{CONDITIONS}{cell_text(paper.conditions)}",
        "",
        *(
            line
            for verdict in ClaimVerdict
            if verdict is not ClaimVerdict.UNTESTABLE
            for line in rows(paper, outcomes, verdict)
        ),
        *((f"{len(untested)} claims{UNTESTED}{', '.join(untested)}. {needs}",) if untested else ()),
    ]
    return "\n".join(lines) + "\n"


def rows(paper: Paper, outcomes: Mapping[str, Outcome], verdict: ClaimVerdict) -> Iterator[str]:
    """Yield the lines on the claims that have a verdict."""
    found = {number: outcome for number, outcome in outcomes.items() if outcome.verdict == verdict.value}
    if found:
        yield from (f"## {verdict.value.capitalize()}", "", *HEAD.splitlines())
        for number, outcome in found.items():
            yield f"| {number} | {stated(paper.claims[number])} | {shortened(outcome.measured)} |"
        yield ""


def shortened(measured: str) -> str:
    """Return what was measured, with what both places have in brackets: `1 Gbit against 10 Gbit (bw / micro)`."""
    places, colon, figure = measured.rpartition(": ")
    return f"{', over '.join(map(_pair, places.split(', over ')))}{colon}{figure}"


def _pair(places: str) -> str:
    first, _, second = (side.split(" / ") for side in places.partition(" against "))
    both = [part for part in first if part in second]
    own, other = ([part for part in side if part not in both] for side in (first, second))
    return f"{' / '.join(own)} against {' / '.join(other)} ({' / '.join(both)})" if both and own and other else places


def stated(claim: Claim) -> str:
    """Return what a claim says in few words, as a cell."""
    return cell_text(claim.short or claim.says)


def outcomes_in(text: str) -> dict[str, Outcome]:
    """Return what a page has of its claims, by number."""
    untested = re.search(rf"{UNTESTED}(.+?)\. ", text)
    found = {number: Outcome(ClaimVerdict.UNTESTABLE.value) for number in untested[1].split(", ")} if untested else {}
    for part in text.split("\n## ")[1:]:
        verdict = part.partition("\n")[0].lower()
        for row in part.partition(HEAD)[2].partition("\n\n")[0].splitlines():
            number, _, measured = row.removeprefix("| ").removesuffix(" |").split(" | ")
            found[number] = Outcome(verdict, measured)
    return found


def run_of(name: str, folders: Sequence[Path]) -> Iterator[str]:
    """Yield when and where a paper's studies ran, and a table of them."""
    rows, starts, ends, facts = [], [], [], []
    for folder in folders:
        results = read_only(folder)
        trials = [
            trial for of_cell in select(results.plan, results.trials).trials.values() for trial in of_cell.values()
        ]
        starts.append(min(trial.started_unix_s for trial in results.trials))
        ends.append(max(trial.started_unix_s + trial.elapsed_s for trial in results.trials))
        facts.append(results.facts)
        failed = sum(not isinstance(trial.outcome, Completed) for trial in trials)
        disturbed = sum(map(is_disturbed, trials))
        rounds = len({trial.key.round for trial in trials})
        minutes = (ends[-1] - starts[-1]) / 60
        rows.append(f"| `{folder.name}` | {minutes:.1f} | {rounds} | {len(trials)} | {failed} | {disturbed} |")
    first, last = (datetime.fromtimestamp(moment, UTC) for moment in (min(starts), max(ends)))
    where = "; ".join(dict.fromkeys(map(machine_of, facts)))
    commits = ", ".join(dict.fromkeys(str(each.get("tare commit", ""))[:10] for each in facts))
    yield f"Run {first:%Y-%m-%d %H:%M} to {last:%H:%M} UTC on {where}, tare's commits {commits}."
    yield f"Make it again: `make papers-{name}`."
    yield ""
    yield "| study | minutes | rounds | launches that count | of them failed | of them disturbed |"
    yield "|---|---|---|---|---|---|"
    yield from rows


def machine_of(facts: Mapping[str, Any]) -> str:
    """Return the machine that facts of results state."""
    model = facts.get("processor", {}).get("model", "")
    return f"{facts['cpu']} ({model}), {facts['cores']} cores, Linux {facts['kernel']}, {facts['os']}"


def counted(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield how many of the claims were decided, by what a small machine can decide of them, where there are any."""
    yield f"| two cores decide | {' | '.join(ClaimVerdict)} |"
    yield f"|---|{'---|' * len(ClaimVerdict)}"
    for here in Here:
        counts = Counter(each.verdict for each in judged if each.claim.here is here)
        if counts:
            yield f"| {here.value} | {' | '.join(str(counts[verdict]) for verdict in ClaimVerdict)} |"
    yield ""


def with_texts(name: str, text: str) -> str:
    """Return what a page has of its claims with what their file says now, and the verdicts that it had."""
    paper = read_paper(REPOSITORY / "claims" / f"{name}.yaml")
    old = outcomes_in(text)
    before = text.partition(CONDITIONS)[0].strip()
    return f"{before}\n\n{table(paper, {number: old[number] for number in paper.claims})}"


def main(arguments: Sequence[str]) -> int:
    """Write the pages and return the exit code."""
    for name in (each for each in arguments if each != TEXTS):
        page = PAGES / f"{name}.md"
        text = page.read_text()
        if text.count(BEGIN) != 1 or text.count(END) != 1:
            print(f"{page.name} has no place for the claims: {BEGIN.strip()} ... {END.strip()}", file=sys.stderr)
            return 1
        head, _, rest = text.partition(BEGIN)
        old, _, after = rest.partition(END)
        page.write_text(
            f"{head}{BEGIN}\n{with_texts(name, old) if TEXTS in arguments else section(name)}\n{END}{after}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
