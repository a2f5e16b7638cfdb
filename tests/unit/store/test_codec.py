"""What is stored comes back as it was; data of another form is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tare.model import Plan, Trial, TrialKey
from tare.store.writer import decode, encode
from unit.stored import PLAN, trial


def test_a_plan_and_numbers_that_json_has_no_word_for_survive() -> None:
    assert decode(Plan, json.loads(json.dumps(encode(PLAN)))) == PLAN
    stored = trial(TrialKey(cell="c", round=0, block=0, attempt=0))
    stored = replace(stored, counters={"a": float("inf"), "b": float("-inf"), "c": float("nan")})
    text = json.dumps(encode(stored), allow_nan=False)
    back = decode(Trial, json.loads(text)).counters
    assert back["a"] == float("inf")
    assert back["b"] == float("-inf")
    assert np.isnan(back["c"])
    assert encode({"a": np.int64(3), "b": np.float32(0.5), "c": np.float64(0.1)}) == {"a": 3, "b": 0.5, "c": 0.1}


def test_unknown_keys_and_lines_of_earlier_versions_are_read() -> None:
    given = trial(TrialKey(cell="c", round=0, block=0, attempt=0))
    data = encode(given)
    del data["noise"], data["node_counters"]
    assert decode(Trial, data | {"new": 1}) == given


@pytest.mark.parametrize(
    "change",
    [
        {"key": 3},
        {"outcome": {"type": "Odd"}},
        {"elapsed_s": "soon"},
        {"position": True},
        {"type": "Plan"},
        {"argv": "a"},
    ],
)
def test_data_of_another_form_is_refused(change: dict[str, object]) -> None:
    data = encode(trial(TrialKey(cell="c", round=0, block=0, attempt=0)))
    with pytest.raises(ValueError, match=r"instead of|is not one of|is not a number"):
        decode(Trial, data | change)
