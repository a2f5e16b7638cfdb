"""`tare run --live`: a browser follows the report of a study whose launches are played; an interrupted run says so."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from browser import chromium, errors, media, opened, violations
from integration.live import Watch, ended, live, wait_for, write_study
from integration.studies import stopped
from unit.report.live.test_live import following

pytestmark = live()
SOON = "const later = window.setTimeout; window.setTimeout = (what, ms) => later(what, ms / 100);"
"""A minute is 0.6 s."""
STATE = "return document.getElementById('live')?.innerText ?? ''"


def has(driver: Any, words: str) -> bool:
    return words in driver.execute_script(STATE)


@pytest.mark.requires("chromium", "axe")
def test_a_browser_follows_a_study_over_its_rounds(tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as driver, following(tmp_path / "results") as run:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SOON})
        opened(driver, run.page)
        assert "getting ready" in driver.execute_script(STATE)
        cells = len(run.cells)
        for number in range(2 * cells + 1):
            run.launch(number)
            if number and number % cells == 0:
                done = f"{number} of {run.total} launches"
                wait_for(partial(has, driver, done), "the new page")
                media(driver, "dark" if number > cells else "light")
        run.live.__exit__(KeyboardInterrupt, None, None)
        wait_for(partial(has, driver, "ended early"), "the page of the end")
        assert "Preliminary" in driver.execute_script(STATE)
        assert driver.find_elements("css selector", "table.first")
        assert violations(driver) == []
        assert errors(driver) == []


def test_an_interrupted_run_leaves_its_page(tmp_path: Path) -> None:
    watch = Watch()
    study = write_study(tmp_path, "live", ["bare", "bare+bridge"])
    with stopped("launch:started", "run", study, "--live", cwd=tmp_path, env={"PYTHONUNBUFFERED": "1"}) as process:
        page = tmp_path / "results/live/report.html"
        assert ">running<" in page.read_text()
        os.kill(process.pid, signal.SIGTERM)
    result = ended(process)
    assert (result.status, "interrupted" in result.stderr) == (130, True)
    assert "report.html" in result.stderr
    assert ">ended early<" in page.read_text()
    assert watch.left(result.lab) == []
