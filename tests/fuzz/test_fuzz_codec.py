"""What is stored comes back as it was; what was not stored by tare is decoded to the right types or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.fuzzing import fuzz
from fuzz.mutations import changed_values
from tare import model
from tare.model import Completed, Failed, Interrupted, Invalid, Plan, Trial, TrialKey
from tare.store.codec import decode, encode
from unit.stored import PLAN

LINE = (Path(__file__).parents[1] / "data" / "results-0.1.0" / "trials.jsonl").read_bytes().split(b"\n")[0]

floats = st.floats(allow_nan=False)
texts = st.text(max_size=12)
outcomes = st.one_of(
    st.builds(
        Completed, metrics=st.lists(st.builds(model.Metric, value=floats, median_s=floats), max_size=3).map(tuple)
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
