"""A made-up publication, and its claims judged on made-up results."""

from __future__ import annotations

from pathlib import Path

from factory_explained import Behaviour, plan_of, trials_of
from tare.compare.claims import Judged, Paper, judge, read_paper
from tare.compare.claims.figures import MeasuredStudy

STUDY = """
baseline: plain
environments:
  plain: {runtime: bare, network: bridge}
  slow: {runtime: bare, network: bridge, env: {A: 1}}
workloads: {messages: {kernels: [latency]}}
repetition: {rounds: 8}
"""
CLAIMS = """
paper: "900"
title: "A paper TEXT"
source: "a journal TEXT"
conditions: "two nodes TEXT"
claims:
  900-1: {place: "1 TEXT", claim: "it costs TEXT", kind: size, here: "yes", conditions: "ten nodes TEXT",
          note: "TEXT", test: {study: made-up, cost: {of: slow, against: plain, above: 5%}}}
  900-2: {place: "2", claim: it costs nothing, kind: sign, here: "yes", changed: "because TEXT",
          test: {study: made-up, cost: {of: slow, against: plain, within: 1%}}}
  900-3: {place: "3", claim: it is fast, kind: capability, here: no hardware,
          needs: {what: "an adapterTEXT", study: elsewhere}}
  900-4: {place: "4", claim: it scales, kind: trend, here: "yes",
          test: {study: not-run, cost: {of: slow, against: plain, within: 1%}}}
  900-5: {place: "5", claim: on many cores too, kind: sign, here: "yes",
          test: {study: made-up, cores: 4096, cost: {of: slow, against: plain, above: 5%}}}
  900-6: {place: "6", claim: exactly so, kind: size, here: "yes",
          test: {study: made-up, cost: {of: slow, against: plain, above: 20%}}}
  900-7: {place: "7", claim: it runs, kind: capability, here: sign only, test: {study: made-up, runs: [plain, slow]}}
"""


def judged_paper(folder: Path, text: str = "") -> tuple[Paper, tuple[Judged, ...]]:
    """Return a publication with a text in each of its places, and its judged claims."""
    file = folder / "900.yaml"
    file.write_text(CLAIMS.replace("TEXT", text))
    paper = read_paper(file)
    plan = plan_of(folder, STUDY)
    trials = trials_of(plan, {"slow": Behaviour(factor=1.2)})
    measured = MeasuredStudy(plan=plan, trials=trials, cores=2, label=f"results/{text}")
    return paper, judge(paper.claims.values(), {"made-up": measured})
