"""Records in parts are put together, hostile values fail the launch, and kernels run in an order of the seed."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tare.model import Caches, KernelSpec, Workload
from tare.workloads import WORKLOADS, LaunchTiming
from tare.workloads.kernel_order import in_flight_bytes, in_order, kernel_order
from tare.workloads.output import OutputError, Parsed, records
from tare.workloads.parts import has_records, with_whole_records
from unit.launch_records import END, RANK, START, WALL, text
from unit.workloads.programs.known import OUTPUTS

APP = Workload(name="app", command=("/home/u/app",))
LATENCY = Workload(name="micro", kernels=(KernelSpec(kernel="latency", message_bytes=8),))
STARTUP = Workload(name="start", startup=Caches.WARM)


def command(start: dict[str, Any] = START, rank: dict[str, Any] = RANK, wall: dict[str, Any] = WALL) -> Parsed:
    return WORKLOADS["command"].parse(APP, text(start, rank, wall, END))


def column(*values: float) -> str:
    return base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()


def latency(**changed: Any) -> Parsed:
    record = {
        "type": "kernel", "kernel": "latency", "spec": "latency:bytes=8", "verified": True, "elapsed_s": 0.1,
        "span_s": [5.0, 5.1],
        "columns": ["max_s", "mean_s"], "data": [column(1e-6, 2e-6), column(1e-6, 2e-6)], "message_bytes": 8,
        "rank_mean_s": [1.5e-6], "sync": "none", "late": 0, "payload": {"bytes_min": 0, "bytes_max": 0, "messages": 0},
    } | changed  # fmt: skip
    return WORKLOADS["kernels"].parse(LATENCY, text(START, RANK, record, END))


def test_a_whole_output_passes_and_one_too_deep_or_with_too_many_samples_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command().metrics[0].value == 2.5
    assert latency().metrics[0].value == pytest.approx(1.5e-6)
    deep = "@tare " + "[" * 100_000 + "\n"
    with pytest.raises(OutputError, match="record 1 is broken"):
        WORKLOADS["command"].parse(APP, deep)
    monkeypatch.setattr("tare.workloads.gate.MOST_SAMPLES", 3)
    with pytest.raises(OutputError, match="4 samples; at most 3 are stored"):
        latency()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0, -1, 1e-9, 9e10, 1e300, 1e-300])
def test_a_wall_time_that_no_clock_tells_fails_the_launch_with_what_it_is(value: float) -> None:
    with pytest.raises(OutputError, match=re.escape(f"wall time is {value:g} s, which is impossible")):
        command(wall=WALL | {"wall_s": value})


@pytest.mark.parametrize("value", [10**400, "nan", True, None, [1]])
def test_a_wall_time_that_is_no_number_fails_the_launch(value: Any) -> None:
    with pytest.raises(OutputError):
        command(wall=WALL | {"wall_s": value})


@pytest.mark.parametrize(
    ("record", "changed"),
    [
        *(("start", {"init_s": value}) for value in (float("nan"), -0.5, 1e300, 10**400)),
        *(("start", changed) for changed in ({"ranks": 1e400}, {"ranks": 10**30}, {"mpi_library": "x" * 1_000_000})),
        ("rank", {"cpus": "0-99999999999"}),
        ("rank", {"cpus": "0-" + "9" * 5000}),
        ("rank", {"pid": 1e400}),
        ("rank", {"pid": 10**400}),
        ("rank", {"namespaces": {"net": 1e400}}),
        ("rank", {"namespaces": {"net": 10**400}}),
        ("rank", {"namespaces": [1]}),
        ("rank", {"shm_device": {"a": 1}}),
        ("rank", {"shm_device": 10**400}),
        ("rank", {"shared_memory_ranks": ["x"]}),
        ("rank", {"shared_memory_ranks": [10**400]}),
        ("rank", {"hostname": "n" * 1_000_000}),
    ],
)
def test_a_start_or_rank_record_with_hostile_values_fails_the_launch(record: str, changed: dict[str, Any]) -> None:
    whole = {"start": START, "rank": RANK}[record]
    with pytest.raises(OutputError):
        command(**{record: whole | changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"data": [column(1e-6, float("nan")), column(1e-6, 2e-6)]},
        {"data": [column(1e-6, 2e-6), column(1e-6, float("inf"))]},
        {"data": [column(-1e-6, -2e-6), column(1e-6, 2e-6)]},
        {"data": [column(0, 0), column(0, 0)]},
        {"data": [column(1e308, 1e308), column(1e308, 1e308)]},
        {"columns": ["max_s", "../../etc"]},
        {"columns": ["max_s", "a b"]},
        {"columns": ["max_s", "x" * 300]},
        {"late": 1e400},
        {"elapsed_s": float("inf")},
        {"elapsed_s": 10**400},
        {"span_s": [1.0]},
        {"span_s": ["now", "then"]},
        {"span_s": [10**400, 1.0]},
        {"message_bytes": "eight"},
        {"message_bytes": 8.0},
        {"message_bytes": True},
        {"rank_mean_s": [1e308, 1e308]},
        {"payload": {"bytes_min": 1e400, "bytes_max": 0, "messages": 0}},
        {"spec": ["x"], "verified": False},
    ],
)
def test_a_kernel_record_with_hostile_values_fails_the_launch(changed: dict[str, Any]) -> None:
    with pytest.raises(OutputError):
        latency(**changed)


def test_moments_of_a_start_up_that_cannot_be_fail_the_launch() -> None:
    told = {
        "type": "startup", "verified": True, "modules": 1, "wrong_modules": 0, "rank_main_s": [10.1],
        "rank_ready_s": [10.2], "rank_init_s": [0.1], "rank_modules_s": [0.01],
    }  # fmt: skip
    began = LaunchTiming(launched_s=10.0, ended_s=11.0, pods_s=0.5)
    assert WORKLOADS["startup"].parse(STARTUP, text(START, RANK, told, END), began).metrics
    for changed in ({"rank_modules_s": [float("nan")]}, {"rank_modules_s": [-1]}, {"rank_init_s": [10**400]}):
        with pytest.raises(OutputError):
            WORKLOADS["startup"].parse(STARTUP, text(START, RANK, told | changed, END), began)


def test_what_a_program_says_reaches_the_reason_without_its_escapes() -> None:
    with pytest.raises(OutputError) as caught:
        command(start=START | {"mpi_library": "Open MPI\x1b[2J"})
    assert "\x1b" not in str(caught.value)
    iperf3 = Workload(name="i", program="iperf3")
    said = json.dumps({"error": "\x1b]0;owned\x07 \u202egnorw"})
    with pytest.raises(OutputError, match=re.escape(r"\x1b]0;owned\x07 \u202egnorw")):
        WORKLOADS["program"].parse(iperf3, text(START, RANK, WALL) + f"{said}\n" + text(END))


def test_a_program_that_finds_its_own_results_wrong_is_told_so_even_without_a_figure() -> None:
    (valid,) = [output.text for output in OUTPUTS if output.program == "hpcg"]
    spectral = valid.replace("Spectral Convergence Tests::Result=PASSED", "Spectral Convergence Tests::Result=FAILED")
    said = re.sub("HPCG result is VALID.*", "HPCG result is=INVALID.", spectral)
    output = text(START, RANK, WALL) + said + text(END)
    parsed = WORKLOADS["program"].parse(Workload(name="h", program="hpcg"), output)
    assert parsed.metrics == ()
    assert any("the result of the spectral convergence test is FAILED" in wrong for wrong in parsed.wrong)


def test_the_mounts_of_a_rank_are_a_text_of_several_lines() -> None:
    mounts = "rw 254:0 /\nro 0:25 /a\n" * 500
    (place,) = command(rank=RANK | {"rights": {"mounts": mounts}}).ranks
    assert place.rights["mounts"] == mounts


RECORDS = [
    '@tare {"type":"start","protocol":1}',
    '@tare {"type":"rank","hostname":"knöchel","libraries":"' + "/lib/é" * 90 + '"}',
    '@tare {"type":"end"}',
]


def pieces(record: str, size: int) -> list[bytes]:
    """Cut a record as kernels/common/parts.c does, at characters."""
    found, rest = [], record.removeprefix("@tare ").encode()
    while rest:
        room = min(size, len(rest))
        while room < len(rest) and rest[room] & 0xC0 == 0x80:
            room -= 1
        found.append(rest[:room])
        rest = rest[room:]
    return found


def written(found: Iterable[str], copies: int = 2, size: int = 256) -> bytes:
    numbers, output = count(), b""
    for record in found:
        cut = pieces(record, size)
        for at, piece in enumerate(cut):
            kind = "last" if at + 1 == len(cut) else "more"
            head = f"@tare-part {next(numbers)} {kind} {len(piece)} {zlib.crc32(piece):08x} "
            output += (head.encode() + piece + b"\n") * copies
    return output


WRITTEN = written(RECORDS)


def test_parts_become_records_and_other_lines_stay() -> None:
    output = "before\n" + WRITTEN.decode() + "after\n"
    assert list(with_whole_records(output)) == ["before", *RECORDS, "after"]
    assert has_records(output)
    assert not has_records("the program's own text\n")


INTRUDERS = [b"rank 1 of 2\n", b"no line end", b"\n\n", b"@tare-part 1 "]


@example(at=len("@tare-part 0 "), text=b"@tare-part 1 ")
@given(at=st.integers(0, len(WRITTEN)), text=st.sampled_from(INTRUDERS))
def test_text_in_any_place_breaks_one_of_two_copies_at_most(at: int, text: bytes) -> None:
    output = (WRITTEN[:at] + text + WRITTEN[at:]).decode(errors="replace")
    assert [line for line in with_whole_records(output) if line in RECORDS] == RECORDS
    assert [record["type"] for record in records(output)] == ["start", "rank", "end"]


@given(cuts=st.lists(st.integers(0, len(WRITTEN) // 700), unique=True))
def test_text_between_the_chunks_that_a_launcher_reads_is_no_harm(cuts: list[int]) -> None:
    output = WRITTEN
    for cut in sorted(cuts, reverse=True):
        output = output[: cut * 700] + b"rank 7 says something\n" + output[cut * 700 :]
    assert len(records(output.decode(errors="replace"))) == len(RECORDS)


def test_a_second_program_of_the_launch_is_not_taken_for_copies_of_the_first() -> None:
    second = [RECORDS[0].replace("}", ',"init_s":2}'), *RECORDS[1:]]
    output = (WRITTEN + written(second)).decode()
    assert list(with_whole_records(output)) == [*RECORDS, *second]
    with pytest.raises(OutputError, match="another report begins there"):
        records((WRITTEN[: WRITTEN.index(b"@tare-part 2")] + written(second)).decode())


def test_a_part_that_is_broken_twice_is_named() -> None:
    once = written(RECORDS, copies=1).decode()
    with pytest.raises(OutputError, match="part 1 of the records is broken by other text, twice: all ranks write"):
        records(once.replace("knöchel", "knöXchel"))


def test_an_output_that_ends_within_a_record_is_cut_off() -> None:
    with pytest.raises(OutputError, match="part 2 of the records is missing: the output is cut off"):
        records(WRITTEN[: WRITTEN.index(b"@tare-part 2")].decode())


SMALL = ("latency:bytes=8", "barrier", "alltoallv:bytes=65536", "spacing:bytes=8,rate=10000")
LARGE = ("bw:bytes=1048576,window=16", "bibw:bytes=65536")
PROGRAM = "/opt/tare/bin/tare-kernels"


@given(st.integers(0, 99), st.integers(0, 30), st.integers(0, 3), st.permutations([*SMALL, *LARGE]))
def test_each_kernel_runs_once_and_large_ones_last(seed: int, round_: int, block: int, specs: list[str]) -> None:
    order = kernel_order(seed, round_, block, specs)
    assert sorted(order) == list(range(len(specs)))
    assert {specs[index] for index in order[-len(LARGE) :]} == set(LARGE)


def test_the_order_differs_between_blocks_repeats_with_the_seed_and_puts_every_small_kernel_first() -> None:
    orders = {kernel_order(1, round_, block, SMALL) for round_ in range(10) for block in range(2)}
    assert len(orders) > 10
    assert kernel_order(1, 3, 1, SMALL) == kernel_order(1, 3, 1, SMALL)
    assert {kernel_order(seed, 0, 0, SMALL) for seed in range(9)} != {kernel_order(1, 0, 0, SMALL)}
    assert {kernel_order(1, round_, 0, SMALL)[0] for round_ in range(40)} == set(range(len(SMALL)))
    assert in_flight_bytes("latency") == 8
    assert in_flight_bytes("bw:bytes=65536") == 64 * 65536
    assert in_flight_bytes("bw:bytes=65536,window=2") == 131072


def test_the_program_gets_the_order_as_its_first_argument() -> None:
    argv = ("mpirun", "-n", "2", "sh", "-c", "exec", PROGRAM, *SMALL)
    made = in_order(argv, 1, 2, 0)
    at = made.index(PROGRAM) + 1
    assert made[at] == "--order=" + ",".join(map(str, kernel_order(1, 2, 0, SMALL)))
    assert made[:at] + made[at + 1 :] == argv


def test_both_programs_of_a_launch_with_two_sides_get_the_same_order() -> None:
    argv = ("mpirun", "-n", "1", "/host/bin/tare-kernels", *SMALL, ":", "-n", "1", PROGRAM, *SMALL)
    made = in_order(argv, 1, 2, 0)
    options = [token for token in made if token.startswith("--order=")]
    assert len(options) == 2
    assert options[0] == options[1]
    assert made.index(":") == argv.index(":") + 1


def test_one_kernel_and_other_programs_stay_as_they_are() -> None:
    for argv in (("mpirun", PROGRAM, "barrier"), ("mpirun", "/home/u/app", "barrier", "latency")):
        assert in_order(argv, 1, 1, 1) == argv
