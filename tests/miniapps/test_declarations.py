"""What Python declares of the mini-applications is what their registry in C says, so that neither can drift."""

from __future__ import annotations

from pathlib import Path

import pytest

from miniapps.launching import asked
from tare.workloads.declared import MINIAPPS, Choice, choice_of, choose
from tare.workloads.miniapps import RATES

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]
RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 25, 32, 64, 128, 144, 1000, 1 << 20)

NEAR = {"rel": 0.25, "abs": 4 << 20}
"""Memory decides whether a size fits: the large arrays are what counts."""


def choices(name: str) -> list[Choice]:
    """Return an application in each of its classes, and with each parameter at its bounds."""
    app = MINIAPPS[name]
    made = [choose(app, {"class": letter}) for letter in app.classes] or [choose(app, {})]
    bounds = [{each.name: str(value)} for each in app.parameters for value in (each.low, each.high)]
    return [*made, *(choose(app, given) for given in bounds)]


def test_every_application_is_declared_as_it_is_registered(program: Path) -> None:
    listed = {each["name"]: each for each in asked(program, "--list")["applications"]}
    assert list(listed) == list(MINIAPPS), "declare it in tare.workloads.declared, in the order of apps/registry.c"
    for name, app in MINIAPPS.items():
        told = listed[name]
        declared = (app.description, app.rate, app.timed, app.classes, app.official_pace, app.divides)
        keys = ("description", "rate", "timed", "classes", "official_pace", "divides")
        assert declared == tuple("" if told[key] is None else told[key] for key in keys)
        parameters = [
            {"name": p.name, "meaning": p.meaning, "usual": p.usual, "low": p.low, "high": p.high}
            for p in app.parameters
        ]
        assert parameters == told["parameters"]


def test_the_rates_of_all_applications_have_a_base_unit_or_name_things() -> None:
    assert {app.rate for app in MINIAPPS.values()} - set(RATES) <= {
        "queries/s",
        "round trips/s",
        "files/s",
        "attempts/s",
    }


@pytest.mark.parametrize("name", MINIAPPS)
def test_ranks_are_refused_and_memory_is_counted_as_the_application_does_itself(program: Path, name: str) -> None:
    chosen = choices(name)
    for ranks in RANKS:
        answers = asked(program, "--ask", str(ranks), *(choice.spec for choice in chosen))["answers"]
        for choice, answer in zip(chosen, answers, strict=True):
            refused = choice.app.refuse(choice, ranks)
            assert (refused is None) == answer["suits"], f"{choice.spec} on {ranks}: {refused}, {answer}"
            if refused is None:
                assert choice.app.memory_bytes(choice, ranks) == pytest.approx(answer["memory_bytes"], **NEAR)
            else:
                assert "allowed" in refused
                assert "allowed" in answer["reason"]


@pytest.mark.parametrize("name", MINIAPPS)
def test_a_specification_means_the_same_to_both(program: Path, name: str) -> None:
    for choice in choices(name):
        assert choice_of(choice.spec) == choice
    wrong = (f"{name}:none=1", f"{name}:class=?", f"{name}x", f"{name}:")
    answers = asked(program, "--ask", "1", *wrong[:3])["answers"]
    assert not any(answer["suits"] for answer in answers)
    for spec in wrong:
        with pytest.raises(ValueError, match=r"allowed|keys"):
            choice_of(spec)
