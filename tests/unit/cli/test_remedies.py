"""A remedy names what the command has that prints it."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tare.cli import commands, session
from tare.cli.usage import options_of, worded
from tare.model import Plan
from tare.study import parse
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan.cells import expand

CORES = "use fewer ranks per node, or `oversubscribe: true` in the placement (then no verdict is given)"
FEWER = "use fewer ranks per node"


@pytest.mark.parametrize(
    ("text", "quick", "launch"),
    [
        (CORES, FEWER, f"{FEWER}, or `--oversubscribe` (then no verdict is given)"),
        (f"x\n  all 3 cells  (unavailable: y: {CORES})", f"x\n  all 3 cells  (unavailable: y: {FEWER})", None),
        ("use transport: tcp, or mpi: openmpi", "use --transport tcp, or --mpi openmpi", None),
        ("build it again, or name its own MPI with `mpi`", "build it again, or name its own MPI with `--mpi`", None),
        ("y: use host or pasta, or cluster: lab", "y: use host or pasta, or --cluster lab", None),
        ("y: use host, or subnets: 1", "y: use host", "y: use host"),
        ("needs a pod each: use share: none", "needs a pod each: use share: none in a study file", None),
        ("a pod each: use `share: none`.", "a pod each: use `share: none` in a study file.", None),
        ("binds: /nope does not exist", "binds: /nope does not exist", "binds: /nope does not exist"),
        ("tare quick: a.image: unknown image 'b'", "tare quick: a.image: unknown image 'b'", None),
    ],
)
def test_a_remedy_is_an_option_of_its_command_or_left_out_if_there_is_another(
    text: str, quick: str, launch: str | None
) -> None:
    assert worded(text, "quick") == quick
    assert worded(text, "run") == worded(text, "plan") == text
    if launch is not None:
        assert worded(text, "launch") == launch


def test_the_options_are_those_that_the_command_has() -> None:
    launch, quick = options_of("launch") or {}, options_of("quick") or {}
    own = {"binds": "--bind", "oversubscribe": "--oversubscribe", "memory_per_container": "--memory"}
    assert own.items() <= launch.items()
    assert {"binds": "--bind", "time_limit": "--time-limit"}.items() <= quick.items()
    assert "oversubscribe" not in quick
    assert (options_of("run"), options_of("lab"), options_of("nothing")) == (None, None, None)


def test_the_reasons_of_single_cells_name_what_the_command_has(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = parse("environments: [bare, docker]\nworkloads: {w: {command: [/bin/true]}}\n")
    plan = expand(stated, lambda *_: None)
    plan = replace(plan, unavailable={plan.cells[1].key: CORES})
    kept: list[Plan] = []

    def create_or_open(_folder: object, plan: Plan, *_: object, **__: object) -> None:
        kept.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "make_plan", lambda *_: plan)
    monkeypatch.setattr(session, "make_ready", lambda plan, *_, **__: (plan, StudyFiles(made={})))
    monkeypatch.setattr(session, "facts", lambda *_: {})
    monkeypatch.setattr(commands.Store, "create_or_open", create_or_open)
    for command in ("quick", "run"):
        monkeypatch.setattr(sys, "argv", ["tare", command])
        with pytest.raises(KeyboardInterrupt):
            commands.run_plan(stated, None)
    assert [list(each.unavailable.values()) for each in kept] == [[FEWER], [CORES]]
