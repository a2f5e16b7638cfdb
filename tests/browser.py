"""Chromium for tests: without a window and without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

AXE: Final = Path(__file__).parents[1] / ".venv/axe/node_modules/axe-core/axe.min.js"
"""The accessibility checker that tools/bootstrap installs."""
ARGUMENTS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1400,1200",
)  # fmt: skip

LIMIT_S: Final = 3600
"""Of a script and of a page, instead of the driver's half a minute: pytest bounds a test."""
VIOLATIONS: Final = """
const done = arguments[0];
axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations.map(
  one => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 200), one.nodes[0].failureSummary.slice(0, 300)])));"""


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Provide a driver of a browser that has its profile in a folder; it is offline, and keeps its console's log."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        driver.set_script_timeout(LIMIT_S)
        driver.set_page_load_timeout(LIMIT_S)
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
        )
        yield driver
    finally:
        driver.quit()


def opened(driver: Any, page: Path, ident: str = "") -> Any:
    """Load a page, wait until it is drawn, and return the driver."""
    driver.get("about:blank")
    driver.get(page.as_uri() + ident)
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return driver


def errors(driver: Any) -> list[Any]:
    """Return what the console has said of errors since it was asked last."""
    return [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def media(driver: Any, scheme: str, kind: str = "screen") -> None:
    """Have the system prefer light or dark colours, and the page be on a screen or on paper."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})


def violations(driver: Any) -> list[Any]:
    """Return what axe-core finds wrong with the page that is open: rule, count, the first element, and why."""
    driver.execute_script(AXE.read_text(encoding="utf-8"))
    return list(driver.execute_async_script(VIOLATIONS))
