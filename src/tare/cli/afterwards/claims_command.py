"""`tare claims`: hold the claims of publications against results folders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from tare.cli.afterwards.options import ClaimsOptions
from tare.cli.output import write_page
from tare.compare.claims import Judged, Paper, judge, read_paper
from tare.compare.claims.claim_tables import ClaimsReport, markdown
from tare.compare.claims.figures import MeasuredStudy
from tare.compare.claims.judge import studies_of
from tare.compare.claims.model import ClaimVerdict, Test
from tare.errors import EXIT_DONE, EXIT_INCONCLUSIVE, ResultsError, UsageError
from tare.store.codec import encode
from tare.store.writer import read_only

FOLDER: Final = Path("claims")
"""Where files of claims are looked for by the name of their publication."""


def show_claims(wanted: ClaimsOptions) -> int:
    """Print the verdicts, and write the page; return 3 if a claim that these results test is undecided, else 0."""
    papers = [read_paper(path) for path in _files(wanted.papers or ())]
    claims = [claim for paper in papers for claim in paper.claims.values()]
    studies = {name for claim in claims if isinstance(claim.by, Test) for name in studies_of(claim.by)}
    judged = judge(claims, measured_in(wanted.on or (), studies))
    of_paper = [(paper, [each for each in judged if each.claim.number in paper.claims]) for paper in papers]
    if wanted.as_json:
        print(json.dumps([encode(each) for each in judged], indent=1, ensure_ascii=True, allow_nan=False))
    elif wanted.as_markdown:
        print("\n\n".join("\n".join(markdown(paper, own)) for paper, own in of_paper))
    else:
        _print(of_paper)
    if wanted.html is not None:
        from tare.compare.claims.page import claims_page  # which loads the templates

        write_page(wanted.html, claims_page(of_paper))
        if not wanted.as_json and not wanted.as_markdown:
            print(f"page: {wanted.html}")
    open_ = [each for each in judged if each.verdict is ClaimVerdict.UNDECIDED and each.results]
    return EXIT_INCONCLUSIVE if open_ else EXIT_DONE


def _print(of_paper: Iterable[tuple[Paper, Sequence[Judged]]]) -> None:
    console = Console()
    for paper, judged in of_paper:
        console.print(ClaimsReport(paper, judged))


def _files(papers: Sequence[str]) -> list[Path]:
    """Return the files of publications, named by a path or by the name of a file in `claims/`."""
    known = sorted(FOLDER.glob("*.yaml"))
    if not papers and not known:
        raise UsageError("there is no folder claims/ here", remedy="name a file of claims, or run it in the repository")
    found = []
    for name in papers:
        path = Path(name) if Path(name).suffix in {".yaml", ".yml"} else FOLDER / f"{name}.yaml"
        if not path.exists():
            listed = ", ".join(each.stem for each in known) or "none"
            raise UsageError(f"there are no claims of {name!r}", remedy=f"name a file, or one of claims/: {listed}")
        found.append(path)
    return found or known


def measured_in(folders: Iterable[Path], studies: set[str]) -> Mapping[str, MeasuredStudy]:
    """Return the results in folders, by the name of their study."""
    found: dict[str, MeasuredStudy] = {}
    for folder in folders:
        results = read_only(folder, skip_damaged=True)
        name = results.plan.study.name
        if name not in studies:
            raise ResultsError(
                f"{folder} has results of study {name}, which no claim of these publications is tested by",
                remedy=f"name results of one of: {', '.join(sorted(studies)) or 'none'}",
            )
        if name in found:
            raise ResultsError(
                f"{folder} and {found[name].label} are both results of study {name}", remedy="name one of them"
            )
        found[name] = MeasuredStudy(
            plan=results.plan,
            trials=results.trials,
            cores=int(results.facts.get("cores") or 0),
            label=str(folder),
            samples=results.columns,
        )
    return found
