"""JUnit's XML, for CI: a test suite per group, and a test case per environment and metric.

A case fails if its overhead is above the study's `limit`, is an error if its launches fail or are invalid, and is
skipped if it is undecided, has no verdict or cannot run. The elements and attributes are those that Jenkins' xunit
plugin accepts (junit-10.xsd), which others read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from xml.etree import ElementTree as ET

from tare import __version__
from tare.model import Summary, Verdict
from tare.model.text import printable
from tare.report import units
from tare.report.cells import reason_text
from tare.report.export import wording
from tare.report.export.format import TextFormat
from tare.report.frames import Source
from tare.report.frames.comparisons import CellComparison, cell_comparisons
from tare.report.remarks import disturbed_text

ERRORS: Final = (Verdict.INVALID, Verdict.NOT_COMPARABLE, Verdict.FAILS)
SKIPS: Final = (Verdict.UNAVAILABLE, Verdict.INCONCLUSIVE, Verdict.NOT_JUDGED)
_NO_CHARACTERS: Final = re.compile("[\ufffe\uffff]")


def text(source: Source) -> str:
    """Return the document."""
    summary = source.summary
    groups: dict[str, list[CellComparison]] = {}
    for each in cell_comparisons(source):
        groups.setdefault(each.cell.group, []).append(each)
    root = ET.Element("testsuites", name=xml_text(f"tare {summary.name}"))
    for group, members in groups.items():
        _suite(root, group, members, summary)
    for kind in ("tests", "failures", "errors"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, group: str, members: Iterable[CellComparison], summary: Summary) -> None:
    suite = ET.SubElement(root, "testsuite", name=xml_text(group))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(summary):
        ET.SubElement(properties, "property", name=name, value=xml_text(value))
    for each in members:
        label = each.info.label if each.info else "no metric"
        case = ET.SubElement(
            suite,
            "testcase",
            name=xml_text(f"{each.comparison.environment}: {label}"),
            classname=xml_text(f"{summary.name}.{group}".replace(" ", "_")),
        )
        _result(case, each, summary)
        output = ET.SubElement(case, "system-out")
        output.text = xml_text("\n".join(wording.lines(each, summary)))
    cases = suite.findall("testcase")
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))
    if notes := [*summary.warnings, *filter(None, [disturbed_text(summary)])]:
        ET.SubElement(suite, "system-err").text = xml_text("\n".join(notes))


def _properties(summary: Summary) -> list[tuple[str, str]]:
    limit = units.percent(summary.limit, sign=False) if summary.limit is not None else "none: no overhead can fail"
    return [
        ("tool", f"tare {__version__}"),
        ("machine", summary.machine),
        ("baseline", summary.baseline),
        ("rounds", str(summary.rounds_done)),
        ("confidence", f"{summary.confidence:g}"),
        ("limit", limit),
        ("margin", units.percent(summary.margin, sign=False)),
    ]


def _result(case: ET.Element, each: CellComparison, summary: Summary) -> None:
    """Add what is not a success to a test case."""
    item = each.comparison
    reason = reason_text(item)
    if item.verdict in ERRORS:
        _add(case, "error", item.verdict.value, reason or item.verdict.value)
    elif item.over_limit and summary.limit is not None:
        limit = units.percent(summary.limit, sign=False)
        _add(case, "failure", "over limit", f"{wording.judged_text(each)} is above the limit of {limit}")
    elif item.verdict in SKIPS:
        _add(case, "skipped", item.verdict.value, reason or item.verdict.value)


def _add(case: ET.Element, kind: str, word: str, message: str) -> None:
    ET.SubElement(case, kind, type=word, message=xml_text(message))


def xml_text(text_: str) -> str:
    """Return a text without the characters that XML cannot hold."""
    return _NO_CHARACTERS.sub("?", printable(text_, lines=True))


JUNIT: Final = TextFormat(suffix=".xml", meaning="JUnit XML: a test case per cell and metric", text=text)
