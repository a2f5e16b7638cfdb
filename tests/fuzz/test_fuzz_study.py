"""Whatever a study file holds, it is read or refused with a `StudyError`."""

from __future__ import annotations

from pathlib import Path

from fuzz.fuzzing import fuzz
from fuzz.mutations import changed_texts
from tare.errors import StudyError
from tare.known import registered
from tare.study import parse

STUDIES = tuple(path.read_text() for path in sorted((Path(__file__).parents[2] / "studies").glob("*.yaml")))
KNOWN = registered()


def check(text: str) -> None:
    try:
        study = parse(text, known=KNOWN)
    except StudyError:
        return
    assert all(name.isprintable() for name in (study.name, *(each.name for each in study.environments)))


def test_a_study_file_is_read_or_refused() -> None:
    fuzz(changed_texts(STUDIES), check)
