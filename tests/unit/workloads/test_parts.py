"""Records in parts: whatever other ranks' text cuts through, they are read as they were written, or refused."""

from __future__ import annotations

import zlib
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tare.workloads.output import OutputError, records
from tare.workloads.parts import has_records, with_whole_records

RECORDS = [
    '@tare {"type":"start","protocol":1}',
    '@tare {"type":"rank","hostname":"knöchel","libraries":"' + "/lib/é" * 90 + '"}',
    '@tare {"type":"end"}',
]
SIZE = 256


def pieces(record: str) -> list[bytes]:
    """Cut a record as kernels/common/parts.c does, at characters."""
    found, rest = [], record.removeprefix("@tare ").encode()
    while rest:
        room = min(SIZE, len(rest))
        while room < len(rest) and rest[room] & 0xC0 == 0x80:
            room -= 1
        found.append(rest[:room])
        rest = rest[room:]
    return found


def written(found: list[str], copies: int = 2) -> bytes:
    numbers, output = count(), b""
    for record in found:
        cut = pieces(record)
        for at, text in enumerate(cut):
            kind = "last" if at + 1 == len(cut) else "more"
            head = f"@tare-part {next(numbers)} {kind} {len(text)} {zlib.crc32(text):08x} "
            output += (head.encode() + text + b"\n") * copies
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
