"""`tare run --live`: a browser follows a study whose launches are played; the page has no violation, and it closes."""

from __future__ import annotations

import os
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from browser import chromium, media, violations
from integration.live import Watch, ended, live, write_study
from integration.studies import stopped
from unit.live.test_live import Following, following

pytestmark = live()
STATE = "const one = document.getElementById('live'); return one ? [one.innerText, one.dataset.report] : ['', '0']"
ONLINE = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}


def answer(run: Following, number: int) -> None:
    """Answer what browsers have asked, as before a launch; time enough has passed to draw a report."""
    run.clock.now_s += 1000.0
    run.live.launching((run.key(number),))


@pytest.mark.requires("chromium", "axe")
def test_a_browser_follows_a_study_over_its_rounds(tmp_path: Path) -> None:
    with (
        chromium(tmp_path / "profile") as driver,
        following(tmp_path / "results") as run,
        ThreadPoolExecutor(1) as pool,
    ):
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", ONLINE)
        opened = pool.submit(driver.get, run.door.url)
        while not opened.done():
            answer(run, 0)
        opened.result()
        while not (state := driver.execute_script(STATE))[0]:
            answer(run, 0)
        text, report = state
        assert "No figures yet" in text
        assert violations(driver) == []
        cells = len(run.cells)
        for after in range(1, 2 * cells + 1):
            run.launch(after - 1)
            before, ends_a_round = report, after % cells == 0
            while f"{after} of {run.total} launches done" not in text or (ends_a_round and report == before):
                answer(run, after)
                text, report = driver.execute_script(STATE)
            if ends_a_round:
                assert "Preliminary" in text
                assert driver.find_elements("css selector", "table.first")
                media(driver, "dark" if after > cells else "light")
                assert violations(driver) == []
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_an_interrupted_run_closes_its_page(tmp_path: Path) -> None:
    watch = Watch()
    study = write_study(tmp_path, "live", ["bare", "bare+bridge"])
    with stopped("launch:started", "run", study, "--live", cwd=tmp_path, env={"PYTHONUNBUFFERED": "1"}) as process:
        text = ""
        while not (found := re.search(r"http://\S+", text)):
            text += process.stderr.readline()
        address = urlsplit(found[0])
        socket.create_connection((address.hostname or "", address.port or 0)).close()
        os.kill(process.pid, signal.SIGTERM)
    result = ended(process)
    assert (result.status, "interrupted" in result.stderr) == (130, True)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname or "", address.port or 0))
    assert watch.left(result.lab) == []
