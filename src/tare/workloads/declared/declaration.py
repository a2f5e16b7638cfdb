"""Define the declaration of a mini-application, and the choice of one with its class and parameters."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

CLASS: Final = "class"
"""The key of the class, for applications that have classes."""

PACE: Final = "pace"
OFFICIAL: Final = "official"
"""The parameter that slows the arithmetic, and the word that it allows besides a number."""

INT_MAX: Final = 2**31 - 1
"""The largest count in an MPI call."""

_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A whole number that a study may set; `usual` is the default, `thin` the most that a thin study needs."""

    name: str
    meaning: str
    usual: int
    low: int
    high: int
    thin: int | None = None


PACE_PARAMETER: Final = Parameter(
    name=PACE,
    meaning="time of the arithmetic in percent, or official: about as slow as the official program",
    usual=100,
    low=100,
    high=1000,
    thin=100,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An application with its class ("" if it has none) and the values of all of its parameters."""

    app: MiniApp
    letter: str = ""
    values: Mapping[str, int] = field(default_factory=dict)

    @property
    def pace(self) -> float:
        """Return the factor by which the arithmetic is slowed."""
        return self.values.get(PACE, PACE_PARAMETER.usual) / PACE_PARAMETER.usual

    @property
    def spec(self) -> str:
        """Return the specification for `tare-miniapps`: the class, and the values that are not the defaults."""
        words = self._words(f"{CLASS}=")
        return f"{self.app.name}:{','.join(words)}" if words else self.app.name

    @property
    def label(self) -> str:
        """Return the specification for readers: `npb-cg A`."""
        return " ".join((self.app.name, *self._words("")))

    def _words(self, before_class: str) -> list[str]:
        letter = [f"{before_class}{self.letter}"] if self.letter else []
        usual = {parameter.name: parameter.usual for parameter in self.app.parameters}
        return [*letter, *(f"{key}={value}" for key, value in self.values.items() if value != usual[key])]


def _as_caches_are(_: Choice) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniApp:
    """The facts of the registry in C about an application, and the functions that a plan calls before anything runs.

    `rate` is the unit of its rate and `classes` its letters, the smallest first. `refuse` returns why a choice cannot
    run on a number of ranks and what is allowed, or None; `memory_bytes` is the memory of one rank. `operations` is the
    work of the timed section, in the unit of the rate; if launches differ in it, their times are compared for this
    amount. `expected_s` is about how long a whole run takes. All are pure. `official_pace` is the value of
    `pace=official`, 0 if the application has no pace. `cold` says whether the machine's file caches are to be dropped
    before the launch. One that is not `judged` gets no verdict on its time. One that `divides` its timed work takes
    turns with other launches.
    """

    name: str
    description: str
    rate: str
    timed: str
    classes: str = ""
    parameters: tuple[Parameter, ...] = ()
    official_pace: int = 0
    ranks: str
    refuse: Callable[[Choice, int], str | None]
    memory_bytes: Callable[[Choice, int], float]
    operations: Callable[[Choice, int], float]
    expected_s: Callable[[Choice, int], float]
    cold: Callable[[Choice], bool] = _as_caches_are
    judged: bool = True
    divides: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys that a choice may have."""
        return (*((CLASS,) if self.classes else ()), *(parameter.name for parameter in self.parameters))


def choose(app: MiniApp, given: Mapping[str, str]) -> Choice:
    """Return an application with the given class and values (texts). Raises `ValueError` with what is allowed.

    The default class is the smallest.
    """
    for key, text in given.items():
        check(app, key, text)
    values = {parameter.name: parameter.usual for parameter in app.parameters}
    values |= {key: number(app, key, text) for key, text in given.items() if key != CLASS}
    return Choice(app=app, letter=given.get(CLASS, app.classes[:1]), values=values)


def thinned(choice: Choice) -> Choice:
    """Return the choice with the smallest class, and with no value above what a thin study needs."""
    most = {each.name: each.thin for each in choice.app.parameters if each.thin is not None}
    values = {name: min(value, most.get(name, value)) for name, value in choice.values.items()}
    return replace(choice, letter=choice.app.classes[:1], values=values)


def check(app: MiniApp, key: str, text: str) -> None:
    """Raise `ValueError` with what is allowed if the application does not have a key or its value."""
    if key not in app.keys:
        near = difflib.get_close_matches(key, app.keys, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{app.name} has no parameter {key!r}{hint} (allowed: {', '.join(app.keys) or 'none'})")
    if key == CLASS:
        if len(text) != 1 or text not in app.classes:
            raise ValueError(f"{app.name} has no class {text!r} (allowed: {', '.join(app.classes)})")
        return
    parameter = next(each for each in app.parameters if each.name == key)
    if (key, text) == (PACE, OFFICIAL):
        return
    if not _WHOLE.fullmatch(text) or not parameter.low <= int(text) <= parameter.high:
        allowed = f"a whole number from {parameter.low} to {parameter.high}{f', or {OFFICIAL}' if key == PACE else ''}"
        raise ValueError(f"{key} of {app.name} cannot be {text!r} (allowed: {allowed})")


def number(app: MiniApp, key: str, text: str) -> int:
    """Return the number for the text of a parameter's value."""
    return app.official_pace if (key, text) == (PACE, OFFICIAL) else int(text)


def find(name: str, apps: Mapping[str, MiniApp]) -> MiniApp:
    """Return the application of this name, or raise `ValueError` with all names."""
    if name not in apps:
        near = difflib.get_close_matches(name, apps, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"unknown mini-application {name!r}{hint} (allowed: {', '.join(apps)})")
    return apps[name]


def read(spec: str, apps: Mapping[str, MiniApp]) -> Choice:
    """Return the choice in a specification `NAME[:key=value,...]`, or raise `ValueError` with what is allowed."""
    name, colon, rest = spec.partition(":")
    app = find(name, apps)
    given: dict[str, str] = {}
    for pair in rest.split(",") if colon else ():
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"write {spec!r} as {name}:key=value,... (keys: {', '.join(app.keys) or 'none'})")
        if key in given:
            raise ValueError(f"{key} is given twice in {spec!r}")
        given[key] = text
    return choose(app, given)


def by_rate(rate: float, untimed: float = 0.1) -> Callable[[Choice, int], float]:
    """Return a function that estimates the time from the rate of one rank; `untimed` is the share of untimed work."""

    def expected_s(choice: Choice, ranks: int) -> float:
        return (1 + untimed) * choice.app.operations(choice, ranks) / (rate * ranks)

    return expected_s


def is_power_of_two(ranks: int) -> bool:
    """Return whether a number of ranks is 1, 2, 4, 8, ..."""
    return ranks > 0 and ranks & (ranks - 1) == 0
