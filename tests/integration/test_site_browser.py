"""The documentation site opens and is searched from a file, fits a telephone, and axe-core finds nothing wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from browser import chromium, errors, media, opened, violations
from source_tree import ROOT
from waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.requires("chromium", "axe")]
FOUND = "return [...document.querySelectorAll('#search-results li a')].map(link => link.getAttribute('href'))"
ENDED = "return document.querySelector('#search-results .search-summary')?.innerText"  # rows come one by one before it
SIDEWAYS = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
PAGES = (
    "index",
    "tutorials/first-verdict",
    "readers/application",
    "environments",
    "study",
    "errors",
    "papers/001",
    "adr/index",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    argv = (sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "-c", "docs", ".", str(folder))
    ended = run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


def show(browser: Any, page: Path, *, width: int) -> None:
    shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    opened(browser, page)
    assert errors(browser) == []


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (1400, "dark"), (400, "light")])
def test_pages_fit_the_screen_and_axe_finds_nothing(browser: Any, site: Path, width: int, scheme: str) -> None:
    media(browser, scheme)
    for name in PAGES:
        show(browser, site / "docs" / f"{name}.html", width=width)
        assert browser.execute_script(SIDEWAYS) <= 0, name
        assert violations(browser) == [], name
        errors(browser)  # axe-core fetches style sheets, which a browser refuses from a file


def test_the_search_works_from_a_file_and_finds_pages_for_users_first(browser: Any, site: Path) -> None:
    show(browser, site / "index.html", width=1400)
    wait_until(lambda: browser.current_url.endswith("docs/index.html"))
    browser.execute_script(
        "const box = document.querySelector('.sidebar-search'); box.value = 'overlay'; box.form.submit()"
    )
    wait_until(lambda: "search.html?q=overlay" in browser.current_url and browser.execute_script(ENDED))
    found = [link.partition("#")[0] for link in browser.execute_script(FOUND)]
    assert "docs/networks.html" in found
    assert not any(part in found[0] for part in ("/adr/", "/papers/", "CHANGELOG"))
    assert violations(browser) == []
