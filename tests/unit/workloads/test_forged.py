"""What a rank prints beside tare's records, forges or prints again is no figure of the launch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.model import Workload
from tare.workloads import WORKLOADS
from tare.workloads.gate import why_not_within
from tare.workloads.output import ONCE, OutputError, Parsed
from tare.workloads.parts import of_launch
from unit.launch_records import END, RANK, START, WALL, text
from unit.workloads.test_gate import column, command, latency, written

APP = Workload(name="app", command=("/home/u/app",))
KEY, EARLIER = "00112233445566aa", "ffeeddccbbaa9988"
FORGED = '@tare {"type":"wall","wall_s":0.000001}\n@tare {"type":"end"}\n'
USED = {f"rank_{name}": [1.0] for name in ("voluntary_switches", "involuntary_switches", "run_delay_s", "on_cpu_s")}


def parts(*records: Mapping[str, Any]) -> str:
    """Return records as the library writes them, in parts of 40 bytes."""
    return written(map(json.dumps, records), size=40).decode()


def parse(output: str) -> Parsed:
    return WORKLOADS["command"].parse(APP, output)


def keyed(output: str, key: str = KEY) -> str:
    return output.replace("@tare ", f"@tare:{key} ").replace("@tare-part ", f"@tare-part:{key} ")


def test_what_another_rank_prints_behind_the_report_is_not_its_figure() -> None:
    report = parts(START, RANK, WALL, END)
    assert parse(report).measured_s == 2.5
    with pytest.raises(OutputError, match="tare's library did not print the record"):
        parse(report + FORGED)
    with pytest.raises(OutputError, match="tare's library did not print the record"):
        parse(FORGED + report)
    with pytest.raises(OutputError, match="2 records say 'start'"):
        parse(report + parts({"version": "2", **START}, RANK, WALL, END))


@pytest.mark.parametrize("kind", sorted(ONCE))
def test_a_record_of_which_a_launch_has_one_is_refused_twice(kind: str) -> None:
    again = {"start": START, "wall": WALL, "end": END}.get(kind, {"type": kind, **USED})
    first = [] if kind in ("start", "wall", "end") else [again]
    with pytest.raises(OutputError, match=f"2 records say '{kind}'"):
        parse(text(START, RANK, WALL, *first, again, END))


def test_a_rank_that_speaks_for_another_is_refused() -> None:
    with pytest.raises(OutputError, match="2 ranks reported where they ran, of 1"):
        parse(text(START, RANK, RANK | {"pid": 9}, WALL, END))


@pytest.mark.parametrize("write", [text, parts])
def test_the_records_of_an_earlier_launch_are_text_of_the_program(write: Any) -> None:
    log = keyed(write(START, RANK, {"type": "wall", "wall_s": 9.0}, END), EARLIER)
    older = text(START, RANK, {"type": "wall", "wall_s": 8.0}, END)  # of a tare without keys
    own = keyed(write(START, RANK, WALL, END))
    for output in (log + own, own + log, older + own + older, f"{log[: len(log) // 2]}\n{own}{log[len(log) // 3 :]}"):
        assert parse(of_launch(output, KEY)).measured_s == 2.5
    with pytest.raises(OutputError, match="lack the key of this launch"):
        parse(of_launch(older, KEY))


@given(
    st.lists(st.sampled_from(["@tare ", "@tare", "-part", f":{KEY} ", f":{EARLIER} ", " ", "{}", "\n"]), max_size=12)
)
def test_no_mark_of_a_launch_arises_from_others(pieces: list[str]) -> None:
    output = "".join(pieces)
    told = of_launch(output, KEY)
    assert "@tare:" not in told
    assert told.count("@tare ") == output.count(f"@tare:{KEY} ")
    assert told.count("@tare-part ") == output.count(f"@tare-part:{KEY} ")


def test_a_wall_time_is_the_longest_of_its_ranks() -> None:
    assert command(wall=WALL | {"rank_wall_s": [2.5]}).measured_s == 2.5
    for ranks_s in ([0.3], [2.5, 2.5], []):
        with pytest.raises(OutputError):
            command(wall=WALL | {"rank_wall_s": ranks_s})


def test_a_message_takes_longer_than_a_clock_s_tick() -> None:
    with pytest.raises(OutputError, match="latency 8 B is 1e-09 s, which is impossible"):
        latency(data=[column(1e-9, 1e-9), column(1e-9, 1e-9)])


def test_no_time_is_longer_than_its_launch() -> None:
    parsed = parse(text(START, RANK, WALL, {"type": "usage", **USED}, END))
    assert why_not_within(parsed, 3.0) == ""
    assert why_not_within(parsed, 2.4) == "the measured section took 2.5 s, but its launch 2.4 s: not its own"
    assert "MPI_Init took 0.1 s" in why_not_within(parsed, 0.05)
    assert "run_delay_s of rank 0 took 1 s" in why_not_within(parse(text(START, RANK, WALL | {"wall_s": 0.1}, {
        "type": "usage", **USED,
    }, END)), 0.5)  # fmt: skip
    long = replace(latency(), init_s=0.0, measured_s=0.0, metrics=())
    assert why_not_within(long, 1.8e-6).startswith("a sample of latency:8/max_s took 2e-06 s")


@pytest.mark.parametrize("payload", [(-1, 5), (6, 5)])
def test_bytes_that_no_launch_can_have_sent_fail_it(payload: tuple[int, int]) -> None:
    with pytest.raises(OutputError, match="the bytes that its ranks sent are impossible"):
        latency(payload={"bytes_min": payload[0], "bytes_max": payload[1], "messages": 1})
