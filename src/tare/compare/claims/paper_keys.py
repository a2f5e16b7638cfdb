"""Define the keys of a file of claims, and make them `model.Paper`."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from tare.compare.claims.model import Claim, ClaimKind, ClaimVerdict, Here, Paper, Test, Text, Undecided
from tare.compare.claims.test_keys import TestForm
from tare.study.value_types import Checked, Word, choice

NUMBER: Final = r"^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*-[0-9]+[a-z]?$"
"""The number of a claim: the publication's name, whose parts are joined by dots or hyphens, and the claim's own."""
TEXT_VERDICTS: Final = (ClaimVerdict.REPRODUCED, ClaimVerdict.CONTRADICTED)


class TextForm(Checked):
    """What the publication's own words decide."""

    verdict: choice(*TEXT_VERDICTS)  # type: ignore[valid-type]
    because: Word


class NeedsForm(Checked):
    """What would decide a claim, and the study that tests it on a machine with that."""

    what: Word
    study: str = ""


def _needs(value: object) -> object:
    return {"what": value} if isinstance(value, str) else value


class ClaimForm(Checked):
    """A claim: one of test, text and needs says what decides it."""

    place: Word
    claim: Word
    kind: choice(*ClaimKind)  # type: ignore[valid-type]
    here: choice(*Here)  # type: ignore[valid-type]
    short: str = ""
    conditions: str = ""
    note: str = ""
    changed: str = ""
    test: TestForm | None = None
    text: TextForm | None = None
    needs: Annotated[NeedsForm, BeforeValidator(_needs)] | None = None

    @model_validator(mode="after")
    def _one(self) -> ClaimForm:
        given = [name for name in ("test", "text", "needs") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of test, text and needs, not {' and '.join(given) or 'none'}")
        return self

    def by(self) -> Test | Text | Undecided:
        """Return what decides the claim."""
        if self.test is not None:
            return self.test.test()
        if self.text is not None:
            return Text(**dict(self.text))
        return Undecided(**dict(self.needs or NeedsForm(what="")))


class PaperForm(Checked):
    """A publication and its claims by number."""

    paper: Word
    title: Word
    source: Word
    conditions: str = ""
    claims: Annotated[dict[Annotated[str, StringConstraints(pattern=NUMBER)], ClaimForm], Field(min_length=1)]

    def made(self) -> Paper:
        """Return the publication."""
        return Paper(
            name=self.paper,
            title=self.title,
            source=self.source,
            conditions=self.conditions,
            claims={number: _claim(number, given) for number, given in self.claims.items()},
        )


def _claim(number: str, given: ClaimForm) -> Claim:
    same = given.model_dump(include={"place", "short", "kind", "here", "conditions", "note", "changed"})
    return Claim(number=number, says=given.claim, by=given.by(), **same)
