"""Whatever a study file holds, it is read or refused with a `StudyError`."""

from __future__ import annotations

import re
from pathlib import Path

from fuzz.fuzzing import fuzz
from fuzz.mutations import changed_texts
from tare.errors import StudyError
from tare.study import parse

SMALL = """\
cluster: {lab: {nodes: 2}}
baseline: bare
environments: [bare, docker+host, {docker-b: {runtime: docker, network: bridge}}]
a_a: true
placements:
  - 2x4 in 2c
  - {nodes: 1, ranks_per_node: 2, containers_per_node: 2, threads_per_rank: 1, memory_per_container: 512MiB}
  - {nodes: 2, ranks_per_node: 4, containers_per_node: 2, cpus_per_container: 0.5, oversubscribe: true, share: none}
workloads: {w: {kernels: [barrier, {latency: {message_bytes: 8, iterations: 15, warmup: 1}}]}}
repetition: {rounds: 10, blocks_per_round: 2, max_rounds: 40, budget: 30min, confidence: 95%, target_half_width: 1%}
margin: 2%
seed: 1
"""
"""Read in a third of the time of the others, and a third of its numbers are of placements."""
FOLDER = Path(__file__).parents[2] / "studies"
SHIPPED = [path.read_text() for path in sorted(FOLDER.rglob("*.yaml"))]
STUDIES = (*(re.sub(r"(^|\s)#.*", r"\1", text) for text in SHIPPED), *[SMALL] * len(SHIPPED))
"""Without their comments, which are half of them: what changes in those shows nothing."""


def check(text: str) -> None:
    try:
        study = parse(text, base=FOLDER)
    except StudyError:
        return
    assert all(name.isprintable() for name in (study.name, *(each.name for each in study.environments)))
    ranks = [placement.ranks for placement in study.placements]
    assert max(ranks) <= 16_384, "docs/study.md says what is beyond all bounds"
    assert sum(ranks) <= 65_536
    assert study.lab.nodes <= 4096


def test_what_is_changed_can_be_read() -> None:
    for text in STUDIES:
        parse(text, base=FOLDER)


def test_a_study_file_is_read_or_refused() -> None:
    fuzz(changed_texts(STUDIES), check)
