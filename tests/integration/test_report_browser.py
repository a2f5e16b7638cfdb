"""The report opens from a file, without a network, in a real browser, and draws everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import samples_factory as factory
from factory_options import Options
from tare.model import Estimate
from tare.report import render_html
from tare.report.plots import bars

pytestmark = [pytest.mark.integration, pytest.mark.requires("chromium")]

ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1400,1200",
)  # fmt: skip
DRAWN = "return [...document.querySelectorAll('.plot')].every(plot => plot.dataset.state === 'drawn')"
SIZES = """
return [...document.querySelectorAll('.plot')].map(plot => {
  const svg = plot.querySelector('svg.main-svg');
  const box = svg ? svg.getBoundingClientRect() : {width: 0, height: 0};
  return [plot.id, box.width, box.height];
})"""

LABEL_GAPS = """
document.body.insertAdjacentHTML('beforeend', `<table class="first">${arguments[0]}</table>`);
return [...document.querySelectorAll('svg.bar')].flatMap(svg => {
  const labels = [...svg.querySelectorAll('text')].map(text => [text.getBBox(), text.textContent]);
  labels.sort((one, other) => one[0].x - other[0].x);
  return labels.slice(1).map(([box, text], i) => [labels[i][1], text, box.x - labels[i][0].x - labels[i][0].width]);
})"""
"""Distances of neighbouring labels of ticks, as drawn in the page's font."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = factory.make(Options(samples=200))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html(result.summary, result.trials, result.samples), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
        )
        driver.get(page.as_uri())
        WebDriverWait(driver, 60).until(lambda drv: drv.execute_script(DRAWN))
        yield driver
    finally:
        driver.quit()


def test_every_figure_is_drawn_and_has_a_size(browser: Any) -> None:
    sizes = browser.execute_script(SIZES)
    assert len(sizes) > 20
    assert [ident for ident, width, height in sizes if width < 200 or height < 100] == []


def test_labels_of_neighbouring_ticks_do_not_touch(browser: Any) -> None:
    scales = [
        bars.Scale.of([Estimate(value=0.0, low=low, high=high, n=10)], 0.02)
        for low in (-0.3, -0.12, -0.04)
        for high in (0.04, 0.15, 0.35, 0.6, 0.77, 0.95, 2.2, 12.0)
    ]
    gaps = browser.execute_script(LABEL_GAPS, "".join(f"<tr><td>{bars.axis(scale)}</td></tr>" for scale in scales))
    assert len(gaps) > len(scales)
    assert [(left, right) for left, right, distance in gaps if distance < 4] == []


def test_the_console_is_silent_and_the_policy_refuses_nothing(browser: Any) -> None:
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


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


def test_nothing_but_the_file_is_asked_for(browser: Any, page: Path) -> None:
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [name for name in asked if not name.startswith(("data:", "blob:"))] == []


def test_the_table_is_on_the_first_screen_and_the_page_does_not_scroll_sideways(browser: Any, tmp_path: Path) -> None:
    browser.execute_script("window.scrollTo(0, 0)")
    bottom = browser.execute_script("return document.querySelector('table.first').getBoundingClientRect().bottom")
    assert 300 < bottom < 900
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0
    assert browser.save_screenshot(str(tmp_path / "report.png"))
    assert (tmp_path / "report.png").stat().st_size > 20_000


def test_the_tail_of_a_distribution_can_be_shown_and_left_again(browser: Any) -> None:
    ticks = "return [...document.getElementById(arguments[0]).querySelectorAll('.ytick text')].map(t => t.textContent)"
    button = browser.find_element("css selector", "button.tail")
    ident = button.get_attribute("data-for")
    before = browser.execute_script(ticks, ident)
    browser.execute_script("arguments[0].click()", button)
    assert button.get_attribute("aria-pressed") == "true"
    assert "99.9%" in browser.execute_script(ticks, ident)
    browser.execute_script("arguments[0].click()", button)
    assert browser.execute_script(ticks, ident) == before


def test_the_forest_can_be_seen_closer_to_zero(browser: Any) -> None:
    button = browser.find_element("css selector", "button.near")
    browser.execute_script("arguments[0].click()", button)
    script = "return document.getElementById(arguments[0]).layout.xaxis.range"
    assert browser.execute_script(script, button.get_attribute("data-for")) == [-8, 8]


def test_a_dark_screen_gets_light_text_in_the_figures(browser: Any) -> None:
    colour = "return getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    light = browser.execute_script(colour)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    try:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(browser, 20).until(lambda drv: drv.execute_script(colour) != light)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
