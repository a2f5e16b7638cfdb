"""JUnit, Markdown and CSV have the elements that readers accept, whatever a text holds."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import exports
from tare.analysis.summary import summarise
from tare.errors import ResultsError
from tare.model import Plan
from tare.report.export import csv, junit, markdown, openmetrics
from tare.report.export.markdown import MOST_CHARACTERS, escape
from tare.report.export.openmetrics import number
from tare.report.frames import TABLES, ColumnType, Source

# Elements of Jenkins' junit-10.xsd: required attributes, optional ones, and children.
GRAMMAR: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"time", "classname", "group"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
    "system-err": (set(), set(), set()),
}


def check(element: ET.Element) -> None:
    required, optional, children = GRAMMAR[element.tag]
    assert required <= set(element.attrib) <= required | optional, element.tag
    for child in element:
        assert child.tag in children, f"{child.tag} in {element.tag}"
        check(child)
    if element.tag not in ("failure", "error", "skipped", "system-out", "system-err"):
        assert not (element.text or "").strip()


@pytest.fixture(scope="module")
def root(source: Source) -> ET.Element:
    return ET.fromstring(junit.text(source))


def result_of(root: ET.Element, name: str) -> tuple[str, str]:
    (case,) = [case for case in root.iter("testcase") if case.get("name") == name]
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            return kind, found.get("message", "")
    return "pass", ""


def test_it_has_the_elements_and_attributes_that_ci_systems_accept(root: ET.Element) -> None:
    check(root)
    for suite in root:
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases))
        for count, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.get(count) == str(sum(case.find(kind) is not None for case in cases))
    assert root.get("failures") == str(sum(int(suite.get("failures", "")) for suite in root))


def test_a_case_above_the_limit_fails_with_the_interval_and_the_rounds(root: ET.Element) -> None:
    kind, message = result_of(root, "overlay: 8-byte latency")
    assert kind == "failure"
    assert "(n = 10 rounds) is above the limit of 25 %" in message
    assert "[" in message


def test_undecided_unavailable_and_failing_cells_are_told_apart(root: ET.Element) -> None:
    assert result_of(root, "slow: 8-byte latency") == ("pass", "")
    assert result_of(root, "bare: 8-byte latency") == ("pass", "")
    assert result_of(root, "noisy: 8-byte latency")[0] == "skipped"
    kind, message = result_of(root, "gone: 8-byte latency")
    assert (kind, exports.REASON in message) == ("skipped", True)
    kind, message = result_of(root, "broken: 8-byte latency")
    assert kind == "error"
    assert "fail" in message


def test_without_a_limit_nothing_fails_and_a_property_says_so(source: Source) -> None:
    results = source.results
    plan = replace(results.plan, study=replace(results.plan.study, limit=None))
    root = ET.fromstring(junit.text(Source(results, summarise(plan, results.trials, results.facts))))
    assert root.get("failures") == "0"
    assert "none: no overhead can fail" in {item.get("value") for item in root.iter("property")}


def test_text_of_xml_and_openmetrics_is_escaped() -> None:
    text = junit.xml_text("a\x00b\x1bc\ufffed\ud800e\tf\ng")
    assert ET.fromstring(f"<x>{text}</x>").text == "a\\x00b\\x1bc?d\\ud800e\tf\ng"
    assert openmetrics.escape('a"b\\c\nd\x1b') == 'a\\"b\\\\c\\nd\\\\x1b'
    assert len(openmetrics.escape("x" * 10_000)) == 500
    assert [number(value) for value in (1e-6, float("inf"), float("-inf"), float("nan"))] == [
        "1e-06", "+Inf", "-Inf", "NaN",
    ]  # fmt: skip


def test_the_folder_is_left_as_it_was(source: Source) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in Path(source.results.path).rglob("*"))
    junit.text(source)
    assert before == sorted((path, path.stat().st_mtime_ns) for path in Path(source.results.path).rglob("*"))


def large(plan: Plan, groups: int) -> Plan:
    """Return a plan with so many more groups that cannot run."""
    more = [
        replace(cell, key=f"{number} {cell.key}", group=f"{number} {cell.group}")
        for number in range(groups)
        for cell in plan.cells
    ]
    unavailable = {cell.key: "x" * 300 for cell in more}
    return replace(plan, cells=(*plan.cells, *more), unavailable={**plan.unavailable, **unavailable})


def test_what_fits_is_whole_and_what_does_not_is_counted_while_the_headline_stays(
    source: Source, tmp_path: Path
) -> None:
    plan = exports.plan()
    much = exports.source(exports.write(tmp_path / "r", large(plan, 100), exports.trials(plan)))
    text = markdown.text(much)
    assert 0.5 * MOST_CHARACTERS < len(text) <= MOST_CHARACTERS
    assert escape(much.summary.headline)[:900] in text
    assert "parts of this report do not fit into 65,000 characters" in text.splitlines()[-1]
    text = markdown.text(source)
    assert "do not fit" not in text
    assert text.startswith("### tare: example\n")
    assert text.count("n = 10") > 8
    assert f"limit {100 * exports.LIMIT:g} %" in text


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("a|b", "a\\|b"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("a\n\n# b", "a \\# b"),
        ("`x` *y* _z_", "\\`x\\` \\*y\\* \\_z\\_"),
        ("@user, 2 @ 3", "@<!-- -->user, 2 @ 3"),
        ("https://x www.y", "https:<!-- -->// www<!-- -->.y".replace("// ", "//x ")),
        ("[a](b)", "\\[a\\](b)"),
        ("\x1b[0m", "\\\\x1b\\[0m"),
    ],
)
def test_a_text_is_shown_as_it_is(given: str, written: str) -> None:
    assert escape(given) == written


def test_a_missing_file_of_samples_is_named_and_the_older_file_stays(tmp_path: Path) -> None:
    written = exports.source(exports.example(tmp_path / "r"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "samples.csv").write_text("older")
    victim = next((written.results.path / "samples").iterdir())
    victim.unlink()
    with pytest.raises(ResultsError, match=victim.name):
        csv.write(written, tmp_path / "out")
    assert (tmp_path / "out" / "samples.csv").read_text() == "older"
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.endswith(".partial")]


@pytest.mark.parametrize(
    ("given", "field"),
    [("a", "a"), ("=a", "'=a"), ("-1", "'-1"), ("a,b", '"a,b"'), ('a"b', '"a""b"'), ("@x,", '"\'@x,"'), ("", "")],
)
def test_a_field_is_quoted_where_it_must_be(given: str, field: str) -> None:
    assert csv.quoted(given) == field


def test_no_text_of_a_table_is_a_formula() -> None:
    file, columns = io.BytesIO(), [each for each in TABLES["trials"].columns if each.kind is ColumnType.TEXT][:1]
    csv.write_rows(file, columns, [("=1+1",), ("-x",), ("plain",)])
    assert file.getvalue().decode().splitlines()[1:] == ["'=1+1", "'-x", "plain"]
