"""The pages of `tare compare` and `tare history` open in a real browser without an error, and show their plots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import factory_across as folders
from browser import chromium, errors, opened
from tare.cli.afterwards.across_commands import show_compare, show_history
from tare.cli.afterwards.options import CompareOptions, HistoryOptions

pytestmark = [pytest.mark.integration, pytest.mark.requires("chromium")]

SHAPES = """
return [...document.querySelectorAll(arguments[0])].map(shape => {
  const box = shape.getBoundingClientRect();
  return [box.width, box.height, getComputedStyle(shape).fill];
})"""
TOO_WIDE = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("results")
    for night in range(8):
        folders.write(top / str(night), machine=1.4 if night > 4 else 1.0, began=1.79e9 + 1e5 * night, seed=night)
    return top


def shown(browser: Any, page: Path) -> Any:
    opened(browser, page)
    assert errors(browser) == []
    assert browser.execute_script(TOO_WIDE) <= 0
    return browser


def test_the_page_of_a_comparison_shows_a_bar_for_each_ratio(browser: Any, results: Path, tmp_path: Path) -> None:
    show_compare(CompareOptions(results=[results / "0", results / "7"], html=tmp_path / "page.html"))
    shapes = shown(browser, tmp_path / "page.html").execute_script(SHAPES, ".bar .point")
    assert len(shapes) == 6
    assert all(width > 4 and height > 4 for width, height, _ in shapes)


def test_the_page_of_a_history_shows_its_points_in_the_colours_of_the_style_sheet(
    browser: Any, results: Path, tmp_path: Path
) -> None:
    show_history(HistoryOptions(folder=results, cell=["bare / latency"], html=tmp_path / "page.html"))
    shapes = shown(browser, tmp_path / "page.html").execute_script(SHAPES, ".chart .halo")
    assert len(shapes) == 8
    assert all(width > 5 and height > 5 for width, height, _ in shapes)
    assert {fill for _, _, fill in shapes} != {"rgb(0, 0, 0)"}
