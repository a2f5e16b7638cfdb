"""The report opens from a file, without a network, in a real browser: views, filters, themes, paper, no script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import samples_factory as factory
from browser import chromium, errors, media, opened, violations
from factory_options import SWEEP, Options
from tare.model import Estimate, Placement
from tare.report import render_html
from tare.report.plots import bars
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.requires("chromium")]

SIZES = """
return [...document.querySelectorAll('main > section:not(.away) svg.chart')].map(svg => {
  const box = svg.getBoundingClientRect();
  return [svg.getAttribute('aria-labelledby'), box.width, box.height, Boolean(svg.closest('details:not([open])'))];
})"""
LABEL_GAPS = """
document.body.insertAdjacentHTML('beforeend', `<table class="first">${arguments[0]}</table>`);
return [...document.querySelectorAll('svg.bar')].flatMap(svg => {
  const labels = [...svg.querySelectorAll('text')].map(text => [text.getBBox(), text.textContent]);
  labels.sort((one, other) => one[0].x - other[0].x);
  return labels.slice(1).map(([box, text], i) => [labels[i][1], text, box.x - labels[i][0].x - labels[i][0].width]);
})"""
"""Distances of neighbouring labels of ticks, as drawn in the page's font."""
OVERLAPS = """
const touch = (one, other) => one.left < other.right - 1 && other.left < one.right - 1
  && one.top < other.bottom - 3 && other.top < one.bottom - 3;
return [...document.querySelectorAll('main > section:not(.away) svg.chart')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  const frame = svg.getBoundingClientRect();
  return texts.flatMap(([name, box], i) => [
    ...texts.slice(i + 1).filter(([, other]) => touch(box, other)).map(([other]) => [name, other]),
    ...(box.width && (box.left < frame.left - 2 || box.right > frame.right + 2) ? [[name, 'outside']] : []),
  ]);
})"""
SHOWN = "return [...document.querySelectorAll('main > section')].filter(s => s.offsetHeight).map(s => s.id)"
SIDEWAYS = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
SCROLLED = """
return [...document.querySelectorAll('.scroll, .plot')].filter(one => one.scrollWidth > one.clientWidth + 1)
  .map(one => one.ariaLabel || one.className)"""
ROWS = """
return [...document.querySelectorAll('table.first tbody tr')].filter(row => row.offsetHeight)
  .map(row => row.querySelector('th a').textContent)"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    placements = (Placement(), Placement(ranks_per_node=2))
    result = factory.with_causes(factory.make(Options(samples=200, placements=placements)))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html(result.summary, result.trials, result.samples), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def browser(driver: Any, page: Path) -> Any:
    """Return the browser with the page as it opens, on a light screen."""
    media(driver, "light")
    opened(driver, page)
    return driver


def test_every_figure_of_a_page_has_a_size(browser: Any, page: Path) -> None:
    opened(browser, page, "#workload-0")
    sizes = browser.execute_script(SIZES)
    assert len(sizes) > 20
    assert [ident for ident, width, height, closed in sizes if not closed and (width < 200 or height < 80)] == []


def test_texts_in_figures_do_not_touch_and_are_inside(browser: Any, page: Path, tmp_path: Path) -> None:
    swept = factory.make(Options(shapes=SWEEP, rounds=3, samples=50))
    other = tmp_path / "swept.html"
    other.write_text(render_html(swept.summary, swept.trials, swept.samples), encoding="utf-8")
    for path in (page, other):
        opened(browser, path, "#workload-0")
        browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert browser.execute_script(OVERLAPS) == []


def test_labels_of_neighbouring_ticks_do_not_touch(browser: Any) -> None:
    scales = [
        bars.Scale.of([Estimate(value=0.0, low=low, high=high, n=10)], 0.02)
        for low in (-0.3, -0.12, -0.04)
        for high in (0.04, 0.15, 0.35, 0.6, 0.77, 0.95, 2.2, 12.0)
    ]
    gaps = browser.execute_script(LABEL_GAPS, "".join(f"<tr><td>{bars.axis(scale)}</td></tr>" for scale in scales))
    assert len(gaps) > len(scales)
    assert [(left, right) for left, right, distance in gaps if distance < 4] == []


def test_the_console_is_silent_and_the_policy_refuses_nothing(browser: Any, page: Path) -> None:
    browser.get_log("browser")
    for ident in ("", "#workload-0", "#environment-2", "#trials", "#nothing", "#%", "#result?verdict=%zz"):
        opened(browser, page, ident)
    assert errors(browser) == []


def test_an_inline_script_or_style_that_is_not_the_pages_own_does_not_run(browser: Any) -> None:
    """What foreign text could become if it were not escaped: the policy has hashes of the page's own parts alone."""
    before = browser.execute_script("return getComputedStyle(document.body).color")
    browser.execute_script("""
        const script = document.createElement("script"); script.textContent = "window.broken = 1";
        const style = document.createElement("style"); style.textContent = "body { color: rgb(1, 2, 3) }";
        document.head.append(script, style);
        document.body.insertAdjacentHTML("beforeend", "<img src='data:,' onerror='broken = 1'><p style='color: red'>");
    """)
    assert browser.execute_script("return typeof broken") == "undefined"
    assert browser.execute_script("return getComputedStyle(document.body).color") == before
    refused = [entry for entry in browser.get_log("browser") if "Content Security Policy" in entry["message"]]
    assert len(refused) >= 3


def test_nothing_but_the_file_is_asked_for(browser: Any) -> None:
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in asked if not name.startswith(("data:", "blob:"))] == []


def test_the_table_is_on_the_first_screen_with_causes_and_the_page_does_not_scroll_sideways(browser: Any) -> None:
    bottom = browser.execute_script("return document.querySelector('table.first').getBoundingClientRect().bottom")
    assert 300 < bottom < browser.execute_script("return innerHeight")
    right = browser.execute_script("return document.querySelector('td.why').getBoundingClientRect().right")
    assert right <= 1400
    assert browser.execute_script(SIDEWAYS) <= 0
    assert "not proven" in browser.find_element("css selector", "table.first").text
    assert "tare explain RESULTS" in browser.find_element("css selector", "table.first").text


def test_a_view_is_shown_at_a_time_and_a_link_opens_another(browser: Any) -> None:
    assert browser.execute_script(SHOWN) == ["result"]
    browser.find_element("link text", "docker+overlay").click()
    (ident,) = wait_until(lambda: [each for each in browser.execute_script(SHOWN) if each != "result"])
    assert ident.startswith("environment-")
    assert browser.find_element("css selector", f"#{ident} h2").text == "docker+overlay"
    browser.find_element("css selector", f"#{ident} tbody th a").click()
    wait_until(lambda: browser.execute_script(SHOWN) == ["workload-0"])
    wait_until(lambda: browser.execute_script("return document.activeElement.closest('section')?.id") == "workload-0")
    wait_until(lambda: browser.execute_script("return scrollY") > 100, "the metric")


def test_filters_hide_rows_and_are_remembered_in_the_address(browser: Any, page: Path) -> None:
    from selenium.webdriver.support.ui import Select

    rows = len(browser.execute_script(ROWS))
    Select(browser.find_element("name", "environment")).select_by_visible_text("docker+overlay")
    wait_until(lambda: set(browser.execute_script(ROWS)) == {"docker+overlay"})
    wait_until(lambda: browser.current_url.endswith("#result?environment=docker%2Boverlay"))
    browser.find_element("link text", "Workloads").click()
    wait_until(lambda: browser.current_url.endswith("#workloads?environment=docker%2Boverlay"))
    opened(browser, page, "#result?verdict=costs&workload=micro+%40+2n+x+1r")
    assert browser.execute_script(ROWS) == ["docker+bridge", "docker+overlay"]
    assert f"2 of {rows} rows" in browser.find_element("css selector", ".shown").text
    Select(browser.find_element("name", "metric")).select_by_index(1)
    heads = "return [...document.querySelectorAll('table.first thead th')].filter(one => one.offsetWidth).length"
    wait_until(lambda: browser.execute_script(heads) == 3, "environment, one metric, why")
    browser.find_element("css selector", "button[type=reset]").click()
    wait_until(lambda: len(browser.execute_script(ROWS)) == rows)


def test_every_control_is_reached_with_the_keyboard_and_shows_that_it_is(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    seen = []
    for _ in range(30):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        name, outline = browser.execute_script("""
            const at = document.activeElement;
            return [at.name || at.className || at.textContent, getComputedStyle(at).outlineStyle]""")
        seen.append(name)
        assert outline != "none", name
    assert seen[0] == "skip"
    for name in ("Workloads", "Launches", "theme js-only", "workload", "environment", "verdict", "metric", "Show all"):
        assert name in seen
    assert any(name == "scroll" for name in seen), "the table can be scrolled with the keyboard"


def test_the_switch_of_colours_goes_over_light_and_dark_to_the_systems(browser: Any) -> None:
    colour = "return getComputedStyle(document.body).backgroundColor"
    button = browser.find_element("css selector", "button.theme")
    shown = [browser.execute_script(colour)]
    for _ in range(3):
        button.click()
        shown.append(browser.execute_script(colour))
    assert shown[0] == shown[1] == shown[3] != shown[2]
    assert button.get_attribute("aria-label") == "Colours: Auto"


@pytest.mark.requires("axe")
@pytest.mark.parametrize(
    ("ident", "scheme"),
    [("", "light"), ("", "dark"), ("#workload-0", "light"), ("#workload-0", "dark"), ("#environments", "light"),
     ("#environment-4", "dark"), ("#setup", "light"), ("#cells", "dark"), ("#trials", "light")],
)  # fmt: skip
def test_axe_finds_no_violation(driver: Any, page: Path, scheme: str, ident: str) -> None:
    media(driver, scheme)
    opened(driver, page, ident)
    assert violations(driver) == []


@pytest.mark.requires("axe")
@pytest.mark.parametrize("ident", ["", "#workload-0", "#environments", "#environment-4", "#setup", "#cells", "#trials"])
def test_on_a_phone_nothing_scrolls_sideways_and_axe_finds_no_violation(browser: Any, page: Path, ident: str) -> None:
    with _phone(browser):
        opened(browser, page, ident)
        assert browser.execute_script(SIDEWAYS) <= 0
        assert browser.execute_script(SCROLLED) == []
        assert violations(browser) == []


@pytest.mark.requires("axe")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_without_javascript_everything_is_there_and_axe_finds_no_violation(
    driver: Any, page: Path, tmp_path: Path, scheme: str
) -> None:
    """The page's script is taken out, since a browser without scripts could not run axe either."""
    text = page.read_text(encoding="utf-8")
    plain = tmp_path / "plain.html"
    plain.write_text(text[: text.rindex("<script>")] + "</body></html>", encoding="utf-8")
    media(driver, scheme)
    opened(driver, plain)
    shown = driver.execute_script(SHOWN)
    views = {"result", "workloads", "workload-0", "workload-1", "environment-0", "setup", "cells", "trials"}
    assert views <= set(shown)
    assert len(driver.execute_script(SIZES)) > 40
    assert not driver.find_element("css selector", ".filters").is_displayed()
    assert violations(driver) == []


@contextmanager
def _phone(driver: Any) -> Iterator[None]:
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_paper_has_every_view_and_no_table_that_is_cut(browser: Any, page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 1032, "height": 703, "deviceScaleFactor": 1, "mobile": False,
    })  # fmt: skip
    try:
        media(browser, "dark", kind="print")
        browser.execute_script("dispatchEvent(new Event('beforeprint'))")
        assert len(browser.execute_script(SHOWN)) > 10
        cut = "return [...document.querySelectorAll('table, svg.chart')].filter(one => one.offsetParent !== null"
        cut += " && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.parentElement.ariaLabel)"
        assert browser.execute_script(cut) == []
        closed = "return document.querySelectorAll('details:not([open])').length"
        assert browser.execute_script(closed) == 0
        style = "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
        assert browser.execute_script(style) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
        browser.execute_script("dispatchEvent(new Event('afterprint'))")
        assert browser.execute_script(closed) > 0
    finally:
        media(browser, "light")
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
