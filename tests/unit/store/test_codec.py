"""What is stored comes back as it was; data of another form is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare import model
from tare.model import Completed, Failed, Interrupted, Invalid, Plan, Trial, TrialKey
from tare.store.writer import decode, encode
from unit.stored import PLAN, trial

# --- the codec --------------------------------------------------------------------------------------------------

floats = st.floats(allow_nan=False)
texts = st.text(max_size=12)
outcomes = st.one_of(
    st.builds(
        Completed,
        metrics=st.lists(st.builds(model.Metric, value=floats, median_s=floats), max_size=3).map(tuple),
    ),
    st.builds(Failed, reason=texts, status=st.none() | st.integers(), stderr_tail=texts),
    st.builds(Invalid, reason=texts),
    st.builds(model.Unavailable, reason=texts),
    st.builds(Interrupted),
)
trials = st.builds(
    Trial,
    key=st.builds(TrialKey),
    started_unix_s=floats,
    elapsed_s=floats,
    outcome=outcomes,
    argv=st.lists(texts, max_size=4).map(tuple),
    startup_s=st.dictionaries(texts, floats, max_size=3),
    ranks=st.lists(
        st.builds(
            model.RankPlace,
            cpus=st.lists(st.integers(0, 99), max_size=3).map(tuple),
            namespaces=st.dictionaries(texts, st.integers(), max_size=2),
        ),
        max_size=2,
    ).map(tuple),
    traffic=st.lists(st.builds(model.InterfaceTraffic), max_size=2).map(tuple),
    counters=st.dictionaries(texts, floats, max_size=3),
    node_counters=st.dictionaries(texts, st.dictionaries(texts, floats, max_size=2), max_size=2),
    noise=st.dictionaries(texts, floats, max_size=3),
)


@given(trials)
def test_a_trial_survives_json_exactly(stored: Trial) -> None:
    line = json.dumps(encode(stored), allow_nan=False)
    assert "\n" not in line
    assert decode(Trial, json.loads(line)) == stored


def test_a_plan_survives_json_exactly() -> None:
    assert decode(Plan, json.loads(json.dumps(encode(PLAN)))) == PLAN


def test_floats_that_json_has_no_word_for_survive() -> None:
    stored = trial(TrialKey(cell="c", round=0, block=0, attempt=0))
    stored = replace(stored, counters={"a": float("inf"), "b": float("-inf"), "c": float("nan")})
    text = json.dumps(encode(stored), allow_nan=False)
    back = decode(Trial, json.loads(text)).counters
    assert back["a"] == float("inf")
    assert back["b"] == float("-inf")
    assert np.isnan(back["c"])


def test_numpy_numbers_are_stored_as_numbers() -> None:
    assert encode({"a": np.int64(3), "b": np.float32(0.5), "c": np.float64(0.1)}) == {"a": 3, "b": 0.5, "c": 0.1}


def test_unknown_keys_are_ignored_and_missing_ones_take_their_default() -> None:
    data = encode(trial(TrialKey(cell="c", round=0, block=0, attempt=0)))
    del data["noise"]
    assert decode(Trial, data | {"new": 1}).noise == {}


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
