"""What a launch in the baseline, and a first round, say of a program that does not run or may not write."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from tare import study
from tare.errors import CellsFailed
from tare.model import Completed, Failed, Trial, TrialKey
from tare.model.trial import NOT_ENDED
from tare.study.plan import calibration
from tare.study.plan.cells import expand

TEXT = "environments: [bare, bare+image, docker, podman]\nworkloads: {w: {command: [/app]}}"


@pytest.mark.parametrize(
    ("reason", "stated", "words"),
    [
        (f"{NOT_ENDED} of 10 s", "", "raise its time limit (--time-limit"),
        ("it ended with status 3: out: Read-only file system", "", "add --writable"),
        ("it ended with status 1: reading namelist: end of file", "", "< FILE"),
        ("it ended with status 1: reading namelist: end of file", "/in", "try it with `tare launch`"),
        ("it ended with status 1: No module named 'mpi4py'", "", "try it with `tare launch`"),
    ],
)
def test_the_remedy_of_a_program_that_does_not_run_depends_on_how_it_failed(
    reason: str, stated: str, words: str
) -> None:
    cell = expand(study.parse(TEXT), lambda *_: None).cells[0]
    cell = replace(cell, workload=replace(cell.workload, input=stated))
    with pytest.raises(CellsFailed) as caught:
        calibration.check(cell, Failed(reason=reason))
    assert words in caught.value.remedy
    assert ("time limit" in caught.value.remedy) == reason.startswith(NOT_ENDED)
    with pytest.raises(CellsFailed, match=r"in the baseline .* each rank is alone"):
        calibration.check(cell, Completed(metrics=()), alone="each rank is alone")


@pytest.mark.parametrize(
    ("outcomes", "ends"),
    [
        ({"bare": "", "bare+image": "", "docker": "Read-only file system", "podman": "Read-only file system"}, True),
        ({"bare": "", "bare+image": "Read-only file system", "docker": "Read-only file system", "podman": ""}, False),
        ({"bare": "", "bare+image": "", "docker": "no route", "podman": "Read-only file system"}, False),
        ({"bare": "Read-only file system", "bare+image": "", "docker": "", "podman": ""}, False),
        (dict.fromkeys(("bare", "bare+image", "docker", "podman"), "Read-only file system"), False),
    ],
)
def test_a_study_ends_if_its_containers_alone_may_not_write(outcomes: dict[str, str], ends: bool) -> None:
    plan = expand(study.parse(TEXT), lambda *_: None)
    trials = [
        Trial(
            key=TrialKey(cell=cell.key, round=0, block=0, attempt=0), position=0, started_unix_s=0.0, elapsed_s=1.0,
            outcome=Failed(reason=words) if words else Completed(metrics=()),
        )
        for cell in plan.cells
        for words in [outcomes.get(cell.environment.name, outcomes["bare"])]
    ]  # fmt: skip
    with pytest.raises(CellsFailed, match="may not write in any container") if ends else nullcontext():
        calibration.check_writes(plan, trials)
