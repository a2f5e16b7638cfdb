"""The page of claims opens from a file in a browser: counts, filters, anchors, figures, no script, no violation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import chromium, errors, media, opened, violations
from factory_claims import judged_paper
from tare.compare.claims.page import claims_page
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.requires("chromium", "axe")]

ROWS = "return [...document.querySelectorAll('.claims tbody tr')].filter(row => row.offsetHeight).map(row => row.id)"
FIGURES = """
return [...document.querySelectorAll('svg.claim')].map(svg => {
  const [region, bar] = ['.region', '.inner'].map(part => svg.querySelector(part).getBoundingClientRect());
  return [svg.closest('tr').id, region.left < bar.left && bar.right < region.right,
          region.right < bar.left, getComputedStyle(svg.querySelector('.region')).fill];
})"""
SIDEWAYS = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("claims")
    path = folder / "page.html"
    path.write_text(claims_page([judged_paper(folder)]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


def shown(browser: Any, page: Path, ident: str = "", *, width: int = 1280) -> Any:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    opened(browser, page, ident)
    assert errors(browser) == []
    return browser


def test_figures_show_where_the_interval_lies_and_filters_and_anchors_find_claims(browser: Any, page: Path) -> None:
    media(browser, "light")
    shown(browser, page)
    assert browser.execute_script(ROWS) == []  # the first view has the counts alone
    assert browser.find_element("id", "headline").text.startswith("7 claims: 2 reproduced")
    browser.find_element("link text", "900").click()
    wait_until(lambda: len(browser.execute_script(ROWS)) == 7)
    figures = {ident: found for ident, *found in browser.execute_script(FIGURES)}
    assert figures["900-1"][:2] == [True, False]
    assert figures["900-2"][:2] == [False, True]
    assert all(fill not in {"rgb(0, 0, 0)", "none"} for *_, fill in figures.values())
    shown(browser, page, "#claims?verdict=reproduced")
    assert browser.execute_script(ROWS) == ["900-1", "900-7"]
    assert "2 of 7 rows" in browser.find_element("css selector", ".shown").text
    shown(browser, page, "#900-7")
    top = browser.execute_script("return document.getElementById('900-7').getBoundingClientRect().top")
    assert 0 < top < 900


@pytest.mark.parametrize(
    ("ident", "width", "scheme"),
    [("", 1280, "light"), ("", 700, "dark"), ("#claims", 1280, "dark"), ("#claims", 700, "light"),
     ("without scripts", 1280, "light"), ("without scripts", 700, "dark")],
)  # fmt: skip
def test_axe_finds_no_violation_and_the_page_does_not_scroll_sideways(
    browser: Any, page: Path, tmp_path: Path, scheme: str, width: int, ident: str
) -> None:
    media(browser, scheme)
    if ident == "without scripts":  # taken out, since a browser without scripts could not run axe either
        text = page.read_text(encoding="utf-8")
        plain = tmp_path / "plain.html"
        plain.write_text(text[: text.rindex("<script>")] + "</body></html>", encoding="utf-8")
        shown(browser, plain, width=width)
        assert len(browser.execute_script(ROWS)) == 7
        assert browser.find_element("id", "headline").is_displayed()
        assert not browser.find_element("css selector", ".filters").is_displayed()
    else:
        shown(browser, page, ident, width=width)
    assert browser.execute_script(SIDEWAYS) <= 0
    assert violations(browser) == []
