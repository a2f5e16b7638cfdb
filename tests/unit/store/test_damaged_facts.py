"""Facts that no launch can have are left out and named, whether they are new or stored; every number has bounds."""

from __future__ import annotations

import ast
import json
import math
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import pytest

import large_results
from tare import model
from tare.analysis.summary.isolation import isolation_of
from tare.cli import commands
from tare.compare.claims.facts import facts_of
from tare.model import Completed, RankPlace
from tare.store.damage import facts_text
from tare.store.plausible import BOUNDS, DAMAGED_FACTS, RIGHTS, out_of_bounds, sound_facts
from tare.store.results import read_only
from tare.store.results_checks import sound_ranks, sound_trial

PLAN = large_results.plan_of(environments=3, groups=1, rounds=30)
TRIALS = [trial for trial, _ in large_results.trials_of(PLAN)][:4]
SOURCE = Path(__file__).parents[3] / "src" / "tare"
GIVEN = Path(__file__).parents[2] / "data" / "results-0.1.0"
NASTY = ("", "-1", "1 2 3 4 5", "a b", "nan", "9" * 300, "x" * 401, "0x", "=", "a=b=c", "\u0661 \u0662 \u0663", "\n")
PLACE = RankPlace(rank=0, host="b/n0", hostname="n0", pid=1, cpus=(0,), rights={"seccomp": "2"})


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("name", [*RIGHTS, "devices", "mounts", "new"])
def test_no_text_of_a_fact_breaks_a_report(name: str, text: str) -> None:
    (place,), damaged = sound_ranks([replace(PLACE, rights={**PLACE.rights, name: text})])
    assert name == "seccomp" or place.rights["seccomp"] == "2"
    assert (name in place.rights) == (name not in damaged)
    trial = replace(TRIALS[0], ranks=(place,))
    assert isolation_of("bare", "bare", [trial]) is not None or not place.rights
    assert facts_of(place) is not None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return results of the first release in which a rank of one launch reports a user map of five numbers."""
    there = tmp_path / "results"
    shutil.copytree(GIVEN, there)
    lines = (there / "trials.jsonl").read_text().splitlines()
    trial = json.loads(lines[2])
    trial["ranks"][0]["rights"]["uid_map"] = "1 2 3 4 5"
    lines[2] = json.dumps(trial)
    (there / "trials.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return there


def test_a_damaged_fact_of_stored_results_is_left_out_and_the_report_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = read_only(folder)
    assert "uid_map" not in results.trials[2].ranks[0].rights
    assert results.trials[2].ranks[0].rights["seccomp"] == "0"
    assert results.caveats == (facts_text(["uid_map"]),)
    commands.show_report(folder, folder / "report.html")
    assert "Facts that no launch can have were left out: uid_map." in " ".join(capsys.readouterr().out.split())
    assert "left out: uid_map" in (folder / "report.html").read_text()


@pytest.mark.parametrize("cores", ["x", "9" * 400, [], -1, float("1e99"), {"a": 1}])
def test_cores_of_a_study_that_are_no_number_are_left_out(folder: Path, cores: object) -> None:
    header = json.loads((folder / "plan.json").read_text())
    header["facts"] |= {"cores": cores, "memory_bytes": "much"}
    (folder / "plan.json").write_text(json.dumps(header))
    results = read_only(folder)
    assert not {"cores", "memory_bytes"} & results.facts.keys()
    assert sorted(results.damaged_facts) == ["cores", "memory_bytes", "uid_map"]


def test_a_sound_trial_is_stored_as_it_is_and_damaged_facts_are_named_once_and_shortly() -> None:
    corrected = replace(TRIALS[0], noise={"cores": 2.0, "steal_s": -0.02})  # by the kernel, by two ticks
    sound = [corrected, *(trial for trial in TRIALS if isinstance(trial.outcome, Completed))]
    assert all(sound_trial(trial) == trial for trial in sound)
    facts, damaged = sound_facts({"ok": "1", "x" * 500: "1", "esc\x1b": "2"})
    assert facts == {"ok": "1"}
    assert damaged == ["x" * 80, "esc\\x1b"]
    assert facts_text(list("abcde")).endswith("a, b, c and 2 more.")
    assert DAMAGED_FACTS not in RIGHTS


NAMES = {(RankPlace, "pid"), (RankPlace, "shm_device")}
"""Numbers that name something: any of 64 bits is one."""


def test_every_number_of_a_trial_has_bounds() -> None:
    for kind, bounds in BOUNDS.items():
        hints = get_type_hints(kind)
        for field in fields(kind):
            numeric = hints[field.name] in (int, float, int | None, float | None) or "float]" in str(hints[field.name])
            assert not numeric or field.name in bounds or (kind, field.name) in NAMES, f"{kind.__name__}.{field.name}"
    of_trials = {each for each in vars(model.trial).values() if isinstance(each, type) and hasattr(each, "__slots__")}
    numbered = {kind for kind in of_trials if {int, float} & set(get_type_hints(kind).values())}
    assert numbered <= set(BOUNDS)


def test_every_right_that_is_taken_apart_has_a_form() -> None:
    """A fact that is read by name anywhere is validated; `devices` and `mounts` are any words."""
    read = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get" and node.args:
                owner, key = node.func.value, node.args[0]  # type: ignore[attr-defined]
            elif isinstance(node, ast.Subscript):
                owner, key = node.value, node.slice
            else:
                continue
            named = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if named == "rights" and isinstance(key, ast.Constant):
                read.add(key.value)
    assert "uid_map" in read
    assert read - {"devices", "mounts"} <= set(RIGHTS)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, of in BOUNDS.items() for name in of])
def test_each_number_is_held_against_its_own_bounds(kind: type, name: str) -> None:
    low, high = BOUNDS[kind][name]
    is_mapping = "Mapping" in str(get_type_hints(kind)[name])

    def found(number: float) -> bool:
        value = object.__new__(kind)
        for field in fields(kind):
            object.__setattr__(value, field.name, None)
        object.__setattr__(value, name, {"of": number} if is_mapping else number)
        return out_of_bounds(value) is not None

    assert not any(map(found, (low, high)))
    assert all(map(found, (min(low - 1e-3, low * 1.001), high * 1.001, math.nan, math.inf, -math.inf, 10**19)))
