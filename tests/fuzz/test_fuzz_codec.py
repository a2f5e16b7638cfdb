"""What is stored comes back as it was; what was not stored by tare is decoded to the right types or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from fuzz.mutations import changed_values
from tare.model import Plan, Trial
from tare.store.codec import decode, encode
from unit.store.test_codec import trials
from unit.stored import PLAN

LINE = (Path(__file__).parents[1] / "data" / "results-0.1.0" / "trials.jsonl").read_bytes().split(b"\n")[0]


def round_trip(stored: Trial) -> None:
    assert decode(Trial, json.loads(json.dumps(encode(stored), allow_nan=False))) == stored


def refuses(value: Any) -> None:
    for wanted in (Plan, Trial):
        try:
            decoded = decode(wanted, value)
        except ValueError:
            continue
        again = encode(decoded)
        assert encode(decode(wanted, again)) == again
        hash(decoded.digest if isinstance(decoded, Plan) else decoded.key)


def test_a_trial_comes_back_as_it_was() -> None:
    fuzz(trials, round_trip)


def test_what_was_not_stored_by_tare_is_decoded_or_refused() -> None:
    fuzz(changed_values([encode(PLAN), json.loads(LINE)]) | st.recursive(st.none(), st.lists), refuses)
