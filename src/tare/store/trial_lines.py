"""Encode trials as lines of trials.jsonl, and decode lines, those of earlier releases too. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final, get_args

from tare import model
from tare.store.codec import decoder_of, encode, expect
from tare.store.plausible import MOST_DIGITS, sound_facts
from tare.store.results_checks import check_trial, sound_ranks
from tare.store.shared import REFERENCE, Shared
from tare.system.foreign_files import make_printable, read_json, refuse_constant

_TRIAL: Final = decoder_of(model.Trial)
_KEY: Final = decoder_of(model.TrialKey)
_OUTCOMES: Final = frozenset(kind.__name__ for kind in get_args(model.Outcome))
_REFERS: Final = f'"{REFERENCE}"'.encode()


def encode_line(trial: model.Trial) -> bytes:
    """Return the line of a trial: its whole record as JSON."""
    return json.dumps(encode(trial), separators=(",", ":")).encode() + b"\n"


def read_key(line: bytes) -> tuple[model.TrialKey, str, str]:
    """Return the key of a line's trial, the name of its outcome's class, and its file of samples ("": none).

    Raises `ValueError` if the line is none of a trial; nothing else of it is examined.
    """
    given = expect(parse(line), dict)
    key, outcome = _KEY(given.get("key")), expect(given.get("outcome"), dict).get("type")
    if outcome not in _OUTCOMES:
        raise ValueError(f"{outcome!r:.60} is not an outcome")
    return key, outcome, expect(given.get("samples_file", ""), str)


class TrialLines:
    """Decode the lines of one file. With `to_show`, texts are made printable.

    `damaged_facts` are the names of the facts that were left out.
    """

    def __init__(self, shared: Shared, *, to_show: bool = False) -> None:
        self._shared, self._to_show = shared, to_show
        self.damaged_facts = set[str]()

    def decode(self, line: bytes) -> model.Trial:
        """Return the trial of a line; raise `ValueError` if it is none, or if a part that it refers to is missing."""
        trial: model.Trial = _TRIAL(self._record(line))
        ranks, of_ranks = sound_ranks(trial.ranks)
        facts, of_facts = sound_facts(trial.facts)
        if of_ranks or of_facts:
            self.damaged_facts.update(of_ranks, of_facts)
            trial = replace(trial, ranks=ranks, facts=facts)
        return check_trial(trial)

    def _record(self, line: bytes) -> Any:
        plain = not self._to_show or (line.isascii() and b"\\" not in line and b"\x7f" not in line)
        given = parse(line) if plain else make_printable(read_json(line))
        return self._shared.filled(expect(given, dict)) if _REFERS in line else given


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
