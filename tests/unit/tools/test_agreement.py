"""Benchmarks: what agreement.py makes of launches, and what pods.py plans of a thousand pods."""

from __future__ import annotations

import numpy as np
import pytest

from counted_calls import count_calls
from source_tree import program

agreement = program("agreement", "benchmarks")

IMB_SAYS = """
# Benchmarking Alltoallv
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            8          200        10.00        12.00        11.00
            8          200        11.00        13.00        12.00
"""
BARRIER_SAYS = """
 #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
          200         0.60         0.70         0.66
 #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
          200         0.61         0.71         0.67
"""
RATE_SAYS = """
       #bytes #repetitions   Mbytes/sec      Msg/sec
        65536            3      2000.00        16231
        65536            3      2100.00        16231
"""


def line(kernel: str, size: int | None, wire: str = "tcp") -> object:
    (pair,) = (pair for pair in agreement.PAIRS if pair.kernel == kernel)
    return agreement.Line(pair=pair, size=size, wire=wire)


def test_the_mean_over_ranks_is_read_from_imbs_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "TURNS", 2)
    assert agreement.table_values(IMB_SAYS, line("alltoallv", 8)) == [11.0, 12.0]
    assert agreement.table_values(BARRIER_SAYS, line("barrier", None)) == [0.66, 0.67]
    assert agreement.table_values(RATE_SAYS, line("bw", 65536)) == [2000.0, 2100.0]


@pytest.mark.parametrize("size", [65536, 8])
def test_a_table_without_all_turns_of_the_size_ends_the_benchmark(size: int) -> None:
    with pytest.raises(SystemExit, match=r"not 20 rows of (50|200) repetitions"):
        agreement.table_values(IMB_SAYS, line("alltoallv", size))


@pytest.mark.parametrize("n", [6, 7, 10, 12, 25])
def test_the_interval_of_the_median_holds_it_in_95_of_100_samples(n: int) -> None:
    random = np.random.default_rng(n)
    samples = random.standard_exponential((2000, n))
    held = [low <= np.log(2) <= high for _, low, high in map(agreement.median_interval, samples.tolist())]
    assert 0.94 <= np.mean(held) <= 0.995


def test_an_overhead_is_compared_in_points() -> None:
    plain, over = (line("barrier", None, wire) for wire in ("tcp", "vxlan"))
    for _ in range(6):
        plain.theirs.append(10e-6)  # type: ignore[attr-defined]
        plain.ours.append(10e-6)  # type: ignore[attr-defined]
        over.theirs.append(14e-6)  # type: ignore[attr-defined]
        over.ours.append(14.6e-6)  # type: ignore[attr-defined]
    (row,) = agreement.overhead_rows([plain, over])
    assert (row.value, row.off) == (pytest.approx(6.0), pytest.approx(0.06))
    assert row.verdict == "BEYOND"
    ratio = agreement.ratio_row(over)
    assert ratio.value == pytest.approx(14.6 / 14)
    assert ratio.verdict == "within"


def test_a_small_kernel_is_held_against_the_small_ones_only() -> None:
    small, large = (next(s for s in agreement.QUICK_START if s.startswith(name)) for name in ("barrier", "bw"))
    assert large not in agreement.may_come_before(small)
    assert len(agreement.may_come_before(small)) == 3
    assert len(agreement.may_come_before(large)) == 4


def test_a_thousand_pods_are_planned_in_two_thousand_calls_each() -> None:
    pods = program("pods", "benchmarks")
    counts: list[int] = []
    assert count_calls(lambda: counts.append(pods.planned()[1])) < 2_000_000
    assert counts == [1000]
