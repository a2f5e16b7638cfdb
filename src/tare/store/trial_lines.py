"""Decode the lines of trials.jsonl, those of earlier releases too, and encode trials as lines. Pure.

Places of ranks, traffic and commands are checked when a line is read, but decoded when they are used: 100,000 trials
would otherwise need gigabytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tare import model
from tare.store.codec import Decoder, check_type, decoder_of, encode, expect, fields_of
from tare.store.parts import LazySequence, Part, Values, held_bytes, make_part
from tare.store.plausible import MOST_DIGITS, RIGHTS, sound_facts
from tare.store.results_checks import check_ranks, check_traffic, check_trial, sound_ranks
from tare.store.shared import REFERENCE, VALUES, Shared, digest_of, divide, dump, is_reference, join
from tare.system.foreign_files import make_printable, read_json, refuse_constant

SHORT: Final = 64
"""Values whose JSON is at most this long are not worth a reference."""

SHARED: Final = (
    "noise",
    "node_counters",
    "argv",
    "ranks",
    "traffic",
    "mpi_library",
    "facts",
    "unproven",
    "partly_proven",
)
"""The fields of a trial that may be references; so may the metrics of its outcome."""

VARY: Final = frozenset({"noise", "node_counters", "argv"})
"""Of these any value may vary, of the others only those of `VARYING`."""

LATER: Final[Mapping[str, Callable[[Any], None]]] = {
    "argv": lambda _: None,
    "ranks": check_ranks,
    "traffic": check_traffic,
}
"""The fields that are decoded when they are used, with what checks their values."""

SOUND: Final[Mapping[str, Callable[[Any], tuple[Any, Iterable[str]]]]] = {"ranks": sound_ranks, "facts": sound_facts}
"""The fields that have facts, with what leaves damaged ones out."""
TYPES: Final = {name: hint for kind in (model.Completed, model.Trial) for name, hint, _ in fields_of(kind)}

_FIELDS: Final = tuple((name, decoder_of(hint), needed) for name, hint, needed in fields_of(model.Trial))
_FIGURES: Final = decoder_of(TYPES["figures"])
_ARGV: Final = decoder_of(TYPES["argv"])


class TrialLines:
    """Decode the lines of one file. With `to_show`, texts are made printable.

    `damaged_facts` are the names of the facts that were left out.
    """

    def __init__(self, shared: Shared, *, to_show: bool = False) -> None:
        self._shared, self._to_show = shared, to_show
        self.damaged_facts = set[str]()
        self._parts: dict[str, dict[str, Part]] = {name: {} for name in (*SHARED, "metrics")}
        self._fields = [(name, self._reader(name, decoder), needed) for name, decoder, needed in _FIELDS]

    def decode(self, line: bytes) -> model.Trial:
        """Return the trial of a line; raise `ValueError` if it is none, or if a part that it refers to is missing."""
        plain = not self._to_show or (line.isascii() and b"\\" not in line and b"\x7f" not in line)
        given = expect(parse(line) if plain else make_printable(read_json(line)), dict)
        check_type(model.Trial, given)
        values: dict[str, Any] = {}
        for name, read, needed in self._fields:
            if name in given:
                values[name] = read(given[name])
            elif needed:
                raise ValueError(f"Trial lacks {name}")
        return check_trial(model.Trial(**values))

    def _reader(self, name: str, decoder: Decoder) -> Decoder:
        """Return what reads a field that is or has a reference, or is as `decoder` expects it."""
        check = LATER.get(name)

        def read(data: Any) -> Any:
            if type(data) is dict and REFERENCE in data:
                return self._referred(name, data)
            value = decoder(data)
            if check is not None:
                check(value)
            return self._noted(*SOUND[name](value)) if name in SOUND else value

        def read_outcome(data: Any) -> Any:
            has_reference = isinstance(data, dict) and is_reference(data.get("metrics"))
            return self._completed(data) if has_reference else decoder(data)

        if name == "outcome":
            return read_outcome
        return read if name in SHARED else decoder

    def _noted(self, sound: Any, damaged: Iterable[str]) -> Any:
        """Return what is sound, and note the names of what is not."""
        self.damaged_facts.update(damaged)
        return sound

    def _sound_rank(self, data: Any) -> Any:
        """Return the JSON of a rank without damaged facts."""
        rights = data.get("rights") if isinstance(data, dict) else None
        return {**data, "rights": self._noted(*sound_facts(rights, RIGHTS))} if isinstance(rights, dict) else data

    def _completed(self, data: Mapping[str, Any]) -> model.Completed:
        check_type(model.Completed, data)
        metrics = self._referred("metrics", data["metrics"])
        return model.Completed(metrics=metrics, figures=_FIGURES(data.get("figures", [])))

    def _referred(self, name: str, data: Mapping[str, Any]) -> Any:
        """Return the value of a reference."""
        digest = data[REFERENCE] if type(data[REFERENCE]) is str else expect(data[REFERENCE], str)
        part = self._parts[name].get(digest) or self._part(name, digest)
        if not part.gaps and VALUES not in data:
            return part.fill(iter(()))
        given = data.get(VALUES)
        values: Values = _ARGV(given) if name == "argv" else expect(given, str)
        if name not in LATER:
            self._shared.count_kept(part.kept_bytes)  # before it is made; the first is no larger than its text
            made = part.made(values)
            part.kept_bytes = part.kept_bytes or held_bytes(made)
            return made
        self._shared.count_filled(part.size_bytes)
        if not part.checked:
            LATER[name](part.made(values))
            part.checked = True
        elif name == "argv":
            part.split(values)
        elif not "".join(part.split(values)).isdecimal():
            raise ValueError(f"{name} has a value that is not a count")
        return LazySequence(part, values)

    def _part(self, name: str, digest: str) -> Part:
        data = self._shared.parse(digest, to_show=self._to_show)
        if name == "facts" and isinstance(data, dict):
            data = self._noted(*sound_facts(data))
        elif name == "ranks" and isinstance(data, list):
            data = [self._sound_rank(rank) for rank in data]
        part = make_part(TYPES[name], data, self._shared.size_bytes(digest), varies=name in VARY)
        if not part.gaps and name in LATER:
            LATER[name](part.made(()))
        self._parts[name][digest] = part
        return part


def parse(line: bytes) -> Any:
    """Return the JSON value of a line. What is made of it is not nested deeply, and no float in it is large."""
    try:
        return _JSON.decode(line.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _parse_int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError("an integer has more than 64 bits")
    return int(text)


_JSON: Final = json.JSONDecoder(parse_int=_parse_int, parse_constant=refuse_constant)


class LineWriter:
    """Encode trials as lines, and collect the parts that shared.jsonl does not have yet."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._commands: dict[str, list[str | None]] = {}

    def encode(self, trials: Iterable[model.Trial]) -> tuple[bytes, dict[str, bytes]]:
        """Return the lines of trials, and the new parts by digest."""
        parts: dict[str, bytes] = {}
        lines = [dump(self._encoded(trial, parts)) + b"\n" for trial in trials]
        return b"".join(lines), parts

    def _encoded(self, trial: model.Trial, parts: dict[str, bytes]) -> dict[str, Any]:
        line: dict[str, Any] = {"type": "Trial"}
        for name, _, _ in _FIELDS:
            value = getattr(trial, name)
            if name == "argv":
                line[name] = self._command(trial.key.cell, value, parts)
            elif name in SHARED:
                line[name] = self._referred(value, name in VARY, parts)
            elif name == "outcome" and isinstance(value, model.Completed):
                metrics = self._referred(value.metrics, False, parts)
                line[name] = {"type": "Completed", "metrics": metrics, "figures": encode(value.figures)}
            else:
                line[name] = encode(value)
        return line

    def _referred(self, value: Any, varies: bool, parts: dict[str, bytes]) -> Any:
        """Return a reference to the part of a value, or the value itself if it is short."""
        part, values = divide(value, varies=varies)
        return self._reference(part, join(values), parts) or encode(value)

    def _command(self, cell: str, argv: Sequence[str], parts: dict[str, bytes]) -> Any:
        """Return a reference to a command; the words vary in which the commands of its cell differed so far."""
        common = self._commands.get(cell)
        if common is None or len(common) != len(argv):
            common = list(argv)
        common = [word if word == own else None for word, own in zip(common, argv, strict=True)]
        self._commands[cell] = common
        values = [own for word, own in zip(common, argv, strict=True) if word is None]
        return self._reference(common, values, parts) or list(argv)

    def _reference(self, part: Any, values: str | list[str], parts: dict[str, bytes]) -> dict[str, Any] | None:
        """Return a reference to a part, which is added if it is new; None if it is short or its digest is taken."""
        text = dump(part)
        digest = digest_of(text)
        known = parts.get(digest) or self._shared.text(digest)
        if len(text) <= SHORT or known not in (None, text):
            return None
        if known is None:
            parts[digest] = text
        return {REFERENCE: digest} | ({VALUES: values} if values else {})
