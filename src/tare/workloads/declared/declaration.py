"""What is declared of a mini-application, and one of them with its class and parameters chosen."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

CLASS: Final = "class"
"""The key that stands before the parameters of an application that has classes."""

PACE: Final = "pace"
OFFICIAL: Final = "official"
"""The parameter that slows the arithmetic, and the word that it takes beside a number."""

INT_MAX: Final = 2**31 - 1
"""The largest count that an MPI call takes."""

_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A whole number that a study may set; `usual` where it does not."""

    name: str
    meaning: str
    usual: int
    low: int
    high: int


PACE_PARAMETER: Final = Parameter(
    name=PACE,
    meaning="time of the arithmetic in percent, or official: about as slow as the official program",
    usual=100,
    low=100,
    high=1000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An application with its class ("" where it has none) and the values of all of its parameters."""

    app: MiniApp
    letter: str = ""
    values: Mapping[str, int] = field(default_factory=dict)

    @property
    def pace(self) -> float:
        """Return how many times as long the arithmetic is to take as it does."""
        return self.values.get(PACE, PACE_PARAMETER.usual) / PACE_PARAMETER.usual

    @property
    def spec(self) -> str:
        """Return what `tare-miniapps` takes: the class, and the values that are not the usual ones."""
        words = self._words(f"{CLASS}=")
        return f"{self.app.name}:{','.join(words)}" if words else self.app.name

    @property
    def label(self) -> str:
        """Return the same as it is read: `npb-cg A`."""
        return " ".join((self.app.name, *self._words("")))

    def _words(self, before_class: str) -> list[str]:
        letter = [f"{before_class}{self.letter}"] if self.letter else []
        usual = {parameter.name: parameter.usual for parameter in self.app.parameters}
        return [*letter, *(f"{key}={value}" for key, value in self.values.items() if value != usual[key])]


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniApp:
    """What the registry in C has of an application, and what a plan asks of it before anything runs.

    `rate` is the unit of its rate and `classes` its letters, the smallest first. `refuse` returns why a choice cannot
    run on so many ranks and what is allowed, or None; `memory_bytes` what one rank needs then. `operations` is what
    the timed section does, in the unit of the rate; where launches differ in that, it is the amount for which their
    times are compared. `expected_s` is about how long a whole run takes. All are pure. `official_pace` is what
    `pace=official` stands for, 0 where the application has no pace.
    """

    name: str
    description: str
    rate: str
    timed: str
    pattern: str
    classes: str = ""
    parameters: tuple[Parameter, ...] = ()
    official_pace: int = 0
    ranks: str
    refuse: Callable[[Choice, int], str | None]
    memory_bytes: Callable[[Choice, int], float]
    operations: Callable[[Choice, int], float]
    expected_s: Callable[[Choice, int], float]

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys that a choice may have."""
        return (*((CLASS,) if self.classes else ()), *(parameter.name for parameter in self.parameters))


def choose(app: MiniApp, given: Mapping[str, str]) -> Choice:
    """Return an application with what is given, as text. Raises `ValueError` with what is allowed.

    Class and values that are not given are the smallest class and the usual values.
    """
    for key, text in given.items():
        check(app, key, text)
    values = {parameter.name: parameter.usual for parameter in app.parameters}
    values |= {key: number(app, key, text) for key, text in given.items() if key != CLASS}
    return Choice(app=app, letter=given.get(CLASS, app.classes[:1]), values=values)


def check(app: MiniApp, key: str, text: str) -> None:
    """Raise `ValueError` with what is allowed where a key or its value is none of the application's."""
    if key not in app.keys:
        near = difflib.get_close_matches(key, app.keys, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{app.name} does not know {key!r}{hint} (allowed: {', '.join(app.keys) or 'none'})")
    if key == CLASS:
        if len(text) != 1 or text not in app.classes:
            raise ValueError(f"{app.name} has no class {text!r} (allowed: {', '.join(app.classes)})")
        return
    parameter = next(each for each in app.parameters if each.name == key)
    if (key, text) == (PACE, OFFICIAL):
        return
    if not _WHOLE.fullmatch(text) or not parameter.low <= int(text) <= parameter.high:
        told = f"a whole number from {parameter.low} to {parameter.high}{f', or {OFFICIAL}' if key == PACE else ''}"
        raise ValueError(f"{key} of {app.name} cannot be {text!r} (allowed: {told})")


def number(app: MiniApp, key: str, text: str) -> int:
    """Return the number that a value of a parameter stands for."""
    return app.official_pace if (key, text) == (PACE, OFFICIAL) else int(text)


def find(name: str, apps: Mapping[str, MiniApp]) -> MiniApp:
    """Return the application of this name, or raise `ValueError` with all that there are."""
    if name not in apps:
        near = difflib.get_close_matches(name, apps, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"unknown mini-application {name!r}{hint} (allowed: {', '.join(apps)})")
    return apps[name]


def read(spec: str, apps: Mapping[str, MiniApp]) -> Choice:
    """Return what a specification `NAME[:key=value,...]` chooses, or raise `ValueError` with what is allowed."""
    name, colon, rest = spec.partition(":")
    app = find(name, apps)
    given: dict[str, str] = {}
    for pair in rest.split(",") if colon else ():
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"{spec!r} is not as {name}:key=value,... (keys: {', '.join(app.keys) or 'none'})")
        if key in given:
            raise ValueError(f"{key} is given twice in {spec!r}")
        given[key] = text
    return choose(app, given)


def by_rate(rate: float, untimed: float = 0.1) -> Callable[[Choice, int], float]:
    """Return an estimate of the time from a modest rate of one rank, and the work outside of the timed section."""

    def expected_s(choice: Choice, ranks: int) -> float:
        return (1 + untimed) * choice.app.operations(choice, ranks) / (rate * ranks)

    return expected_s


def is_power_of_two(ranks: int) -> bool:
    """Tell whether a number of ranks is 1, 2, 4, 8, ..."""
    return ranks > 0 and ranks & (ranks - 1) == 0
