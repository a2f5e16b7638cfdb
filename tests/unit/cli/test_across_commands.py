"""`tare compare` and `tare history`: tables of eighty columns, JSON, pages, exit codes, hostile folders."""

from __future__ import annotations

import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import factory_across as folders
from tare.cli.afterwards.across_commands import Outputs, show_compare, show_history
from tare.errors import RefusedError, UsageError

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    top = tmp_path_factory.mktemp("pair")
    facts = folders.changed("identity", "kernel", value="6.2.0")
    return (
        folders.write(top / "a", factors={"docker": 1.2}),
        folders.write(top / "b", factors={"docker": 1.5}, facts=facts, seed=2, began=1.7901e9),
    )


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("nights")
    for number in range(8):
        machine = 1.4 if number > 4 else 1.0
        folders.write(top / str(number), machine=machine, began=1.79e9 + 1e5 * number, seed=number, rounds=6)
    return top


@pytest.fixture(autouse=True)
def _eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


class Checker(HTMLParser):
    """Collect elements and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def check_page(path: Path) -> str:
    """Check that a page has neither scripts nor inline styles nor addresses, and return it."""
    text = path.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    names = {tag for tag, _ in checker.elements}
    assert not names & {"script", "iframe", "object", "img"}
    attributes = [name for _, attributes in checker.elements for name in attributes]
    assert not [name for name in attributes if name == "style" or name.startswith("on")]
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text
    return text


def test_what_differs_must_be_declared(pair: tuple[Path, Path]) -> None:
    with pytest.raises(RefusedError, match=r"kernel: kernel: A 6\.1\.0-1, B 6\.2\.0"):
        show_compare(pair, [], Outputs())


def test_a_comparison_is_printed_in_eighty_columns(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert show_compare(pair, ["kernel"], Outputs()) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert re.search(r"latency 8 B +▲ 1\.2\d \[1\.\d\d, 1\.\d\d\] 12\.\d µs +▲ 1\.2\d \[.* \+\d\d %", said)
    joined = " ".join(said.split())
    assert "docker in micro / 2n x 1r: latency 8 B, bw 1 MiB: could be kernel: network stack" in joined
    assert "not other days on the same machines" in joined


def test_a_comparison_is_printed_in_ascii(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", out)
    show_compare(pair, ["all"], Outputs())
    out.flush()
    assert b"^ 1.2" in out.buffer.getvalue()  # type: ignore[attr-defined]


def test_json_is_all_that_is_printed(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_compare(pair, ["all"], Outputs(as_json=True, html=tmp_path / "page.html"))
    data = json.loads(capsys.readouterr().out)
    assert [result["label"] for result in data["results"]] == ["A", "B"]
    assert data["differences"][0]["values"] == {"A": "6.1.0-1", "B": "6.2.0"}


def test_the_page_of_a_comparison_has_each_ratio_and_difference(pair: tuple[Path, Path], tmp_path: Path) -> None:
    show_compare(pair, ["all"], Outputs(html=tmp_path / "page.html"))
    text = check_page(tmp_path / "page.html")
    for expected in ("latency 8 B", "bw 1 MiB", "6.2.0", "slower", "n = 10 and 10", "could be kernel"):
        assert expected in text
    assert text.count('<svg class="bar"') == 2 + 4 + 2


@pytest.mark.parametrize("count", [1, 27])
def test_other_numbers_of_folders_are_refused(pair: tuple[Path, Path], count: int) -> None:
    with pytest.raises(UsageError, match=f"not {count}"):
        show_compare([pair[0]] * count, [], Outputs())


def test_a_history_is_printed_in_eighty_columns(nights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(nights, ["bare / latency"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    joined = " ".join(said.split())
    assert re.search(r"▁▁\|██|▁\|█", joined)
    assert re.search(
        r"▲ slower by \+(39|40)[.\d]* % \[.*, p < 0.001\) since 5 \(2026-09-27 09:06 UTC\), the last 3", joined
    )
    assert "false alarm in this series is 5 %" in joined


@pytest.mark.parametrize(("fail", "within", "code"), [(False, 10, 0), (True, 10, 1), (True, 3, 1), (True, 2, 0)])
def test_the_exit_code_says_that_the_newest_results_are_slower(
    nights: Path, fail: bool, within: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(nights, [], fail=fail, within=within) == code


def show(
    folder: Path, cells: list[str], *, fail: bool = False, within: int = 10, outputs: Outputs | None = None
) -> int:
    return show_history(folder, cells, outputs or Outputs(), overhead=False, last=100, fail=fail, within=within)


def test_the_page_of_a_history_has_a_plot_with_the_change(nights: Path, tmp_path: Path) -> None:
    show(nights, ["bare / latency"], outputs=Outputs(html=tmp_path / "page.html"))
    text = check_page(tmp_path / "page.html")
    assert text.count('<svg class="series"') == 1
    assert text.count('<circle class="point"') == 8
    assert text.count('<path class="level"') == 2
    assert text.count('<path class="change slower"') == 1


def test_hostile_names_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = folders.changed("identity", "kernel", value=HOSTILE)
    paths = [
        folders.write(tmp_path / str(n), text=HOSTILE, facts=facts if n else folders.FACTS, seed=n, machine=1.0 + n)
        for n in range(2)
    ]
    show_compare(paths, ["all"], Outputs(html=tmp_path / "c.html"))
    show(tmp_path, [], outputs=Outputs(html=tmp_path / "h.html"))
    said = capsys.readouterr().out
    assert "\x1b[31m" not in said
    assert "\u202e" not in said
    for name in ("c.html", "h.html"):
        text = check_page(tmp_path / name)
        assert "&lt;script&gt;alert(1)" in text
        assert "\x1b" not in text
    with pytest.raises(RefusedError) as refused:
        show_compare(paths, [], Outputs())
    assert "\x1b" not in str(refused.value)


def test_a_page_that_cannot_be_written_is_said(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        show_compare(pair, ["all"], Outputs(html=tmp_path / "no" / "page.html"))
