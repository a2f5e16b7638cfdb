#!/usr/bin/env python3
"""Write what results say of a paper's claims into docs/papers.md: `tools/papers_page.py 003 004`, or `--texts 003`.

Results are those of `make papers-003`, in results/papers/003/STUDY; all of its studies must be there. The section of a
paper stands between its markers: when and where it was run, its studies with their rounds and launches, the verdicts,
the claims. The claims of a paper are judged together (Holm), as `make papers-003` judges them. With `--texts` no
results are read: what the file of claims says is written again, and verdicts and figures stay.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tools")]

from papers import studies_for  # noqa: E402 - found through the line above

from tare.claims import Judged, Paper, Verdict, judge, read_paper  # noqa: E402 - found through the line above
from tare.claims.model import Here  # noqa: E402 - found through the line above
from tare.claims.shown import markdown, stated_cells  # noqa: E402 - found through the line above
from tare.cli.afterwards.claims_command import measured_in  # noqa: E402 - found through the line above
from tare.model import Completed  # noqa: E402 - found through the line above
from tare.store.writer import read_only  # noqa: E402 - found through the line above
from tare.summary.disturbance import is_disturbed  # noqa: E402 - found through the line above
from tare.summary.select import select  # noqa: E402 - found through the line above

PAGE: Final = REPOSITORY / "docs" / "papers.md"
RESULTS: Final = REPOSITORY / "results" / "papers"
TEXTS: Final = "--texts"
JUDGED: Final = 3
"""The last cells of a row are of results: verdict, measured, why."""


def markers(name: str) -> tuple[str, str]:
    """Return what stands before and after the section of a paper."""
    return f"<!-- papers/{name}: tools/papers_page.py writes from here -->\n", f"<!-- to here: papers/{name} -->\n"


def section(name: str) -> str:
    """Return the section of a paper; raise `SystemExit` if a study of its claims has no results."""
    studies = studies_for(name)
    folders = [RESULTS / name / study for study in studies]
    if missing := [study for study, folder in zip(studies, folders, strict=True) if not folder.is_dir()]:
        raise SystemExit(f"results/papers/{name} lacks {', '.join(missing)}: make papers-{name}")
    paper = read_paper(REPOSITORY / "claims" / f"{name}.yaml")
    judged = judge(paper.claims.values(), measured_in(folders, set(studies)))
    title, *rest = markdown(paper, judged)
    lines = [title, "", *run_of(name, folders), "", *counted(paper, judged), *rest]
    return "\n".join(line.replace(f"{RESULTS}/{name}/", "") for line in lines) + "\n"


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


def counted(paper: Paper, judged: Sequence[Judged]) -> Iterator[str]:
    """Yield how many of the claims were decided, by what a small machine can decide of them."""
    yield f"What {len(paper.claims)} claims came to, by what two cores can decide of them:"
    yield ""
    yield f"| two cores decide | {' | '.join(Verdict)} |"
    yield f"|---|{'---|' * len(Verdict)}"
    for here in Here:
        counts = Counter(each.verdict for each in judged if each.claim.here is here)
        yield f"| {here.value} | {' | '.join(str(counts[verdict]) for verdict in Verdict)} |"
    yield ""


def with_texts(name: str, section: str) -> str:
    """Return the section of a paper with what its file of claims says in each row, and the verdicts that it had."""
    claims = read_paper(REPOSITORY / "claims" / f"{name}.yaml").claims
    lines = []
    for line in section.splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if line.startswith("| ") and cells[0] in claims:
            line = f"| {' | '.join((*stated_cells(claims[cells[0]]), *cells[-JUDGED:]))} |"  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines).strip() + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the sections and return the exit code."""
    text = PAGE.read_text()
    names = [each for each in arguments if each != TEXTS]
    for name in names:
        begin, end = markers(name)
        if text.count(begin) != 1 or text.count(end) != 1:
            print(f"{PAGE.name} has no place for papers/{name}: {begin.strip()} ... {end.strip()}", file=sys.stderr)
            return 1
        head, rest = text.split(begin)
        old, after = rest.split(end)
        text = f"{head}{begin}\n{with_texts(name, old) if TEXTS in arguments else section(name)}\n{end}{after}"
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
