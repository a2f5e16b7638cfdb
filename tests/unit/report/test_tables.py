"""Workloads with one metric each share a table; others do not."""

from __future__ import annotations

from dataclasses import replace

from tare.model import MetricInfo, MetricKind
from tare.report.tables import MOST_COLUMNS, merge
from tare.report.view import Column, TableGroup, heading


def column(group: str, label: str) -> Column:
    info = MetricInfo(key=label, label=label, kind=MetricKind.COST, statistic="mean", group=group)
    return Column(info=info, cells={}, baseline=None, noise=None)


def group(
    workload: str, *labels: str, placement: str = "2n x 1r", rows: tuple[str, ...] = ("bare", "docker")
) -> TableGroup:
    name = f"{workload} / {placement}"
    return TableGroup(name=name, rows=rows, columns=tuple(column(name, label) for label in labels))


def names(groups: tuple[TableGroup, ...]) -> list[tuple[str, list[str]]]:
    return [(table.name, [column.info.label for column in table.columns]) for table in groups]


def test_single_figures_of_one_placement_become_columns_of_one_table() -> None:
    tables = merge([group("micro", "latency", "bw"), group("ep", "npb-ep W"), group("cg", "npb-cg W")])
    assert names(tables) == [("micro / 2n x 1r", ["latency", "bw"]), ("2n x 1r", ["npb-ep W", "npb-cg W"])]
    assert [part.info.group for part in tables[1].columns] == ["ep / 2n x 1r", "cg / 2n x 1r"]


def test_groups_with_different_placements_or_rows_are_not_merged() -> None:
    apart = [
        group("a", "x"),
        group("b", "y", placement="1n x 2r"),
        group("c", "z", placement="1n x 2r", rows=("bare",)),
    ]
    assert merge(apart) == tuple(apart)


def test_equal_labels_get_the_names_of_their_workloads() -> None:
    (table,) = merge([group("one", "wall time"), group("two", "wall time"), group("ep", "npb-ep W")])
    assert names((table,)) == [("2n x 1r", ["one: wall time", "two: wall time", "npb-ep W"])]


def test_a_table_has_no_more_columns_than_are_read_at_a_glance() -> None:
    many = [group(f"w{number}", f"label {number}") for number in range(MOST_COLUMNS + 2)]
    assert [len(table.columns) for table in merge(many)] == [MOST_COLUMNS, 2]
    assert merge([]) == ()


def test_notes_below_several_tables_have_a_heading() -> None:
    one, other = group("micro", "latency 8 B", "bw"), group("start", "MPI_Init")
    assert heading(one, (one,)) == ""
    assert heading(one, (one, other)) == one.name
    first, second = replace(one, name="2n x 1r"), replace(other, name="2n x 1r")
    assert heading(first, (first, second)) == "2n x 1r, latency 8 B to bw"
    assert heading(second, (first, second)) == "2n x 1r, MPI_Init"
