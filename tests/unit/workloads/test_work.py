"""What a program did is read from the record of tare's library and from its own output."""

from __future__ import annotations

from typing import Any

import pytest

from tare.model import Work
from tare.workloads.output import OutputError
from tare.workloads.work import COLUMNS, MOST_TEXT, work_of


def records(*hosts: str, **changes: Any) -> list[dict[str, Any]]:
    own = {f"rank_{name}": [1.0, 2.0] for name in COLUMNS}
    return [
        {"type": "start", "ranks": 2},
        *({"type": "rank", "hostname": host} for host in hosts or ("n0", "n1")),
        {"type": "work", **own, "preloads": ["liba.so", "libb.so"], **changes},
    ]


def done(text: str, *hosts: str, **changes: Any) -> Work:
    found = work_of(records(*hosts, **changes), text)
    assert found is not None
    return found


def test_ranks_are_summed_but_for_the_least_user_time() -> None:
    work = done("a\n\nb\n")
    assert (work.read_bytes, work.sent_bytes, work.threads, work.user_s) == (3, 3, 3, 1)
    assert (work.preloads, work.output_bytes, work.output_lines) == ("liba.so libb.so", 5, 2)
    assert done("", rank_user_s=None, rank_read_bytes=None) == done("", rank_user_s=None, rank_read_bytes=None)
    assert done("", rank_read_bytes=None).read_bytes is None
    assert work_of(records()[:-1], "text") is None


def test_the_order_of_lines_and_the_names_of_hosts_are_no_difference() -> None:
    one = done("rank 0 on n0 of n0-n1\nrank 1 on n1\n")
    other = done("rank 1 on tare-77b\nrank 0 on tare-77 of tare-77-tare-77b\n", "tare-77", "tare-77b")
    assert one.output == other.output
    assert done("column0 on n0\n").output != done("column0 on n0\n", "column0", "n1").output


def test_numbers_addresses_and_paths_differ_in_the_output_and_not_in_its_words() -> None:
    one, other = done("step 17: 0x7ffd of /home/a/b, 1.5e-3 s\n"), done("step 9: 0xab of /opt/c, 22.25 s\n")
    assert one.output != other.output
    assert one.words == other.words
    assert done("no input, using defaults\n").words != done("steps: 500\n").words


def test_a_large_output_has_its_size_and_no_digest() -> None:
    one, other = done("a" * MOST_TEXT + "b"), done("c" * MOST_TEXT + "d")
    assert (one.output, one.output_bytes) == (other.output, MOST_TEXT + 1)


@pytest.mark.parametrize("column", [[1.0], [1.0, -1.0], [1.0, 1e30], [1.0, True], [1.0, "2"], 3])
def test_impossible_records_are_refused(column: Any) -> None:
    with pytest.raises((OutputError, TypeError)):
        work_of(records(rank_written_bytes=column), "")
