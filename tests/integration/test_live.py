"""`tare run --live`: a browser follows a study on the lab; the page has no violation, and nothing is left of it."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from browser import chromium, media, violations
from integration.live import MICRO, Watch, ended, live, pids_of, start, wait_for, write_study

pytestmark = live("chromium")
STATE = "const one = document.getElementById('live'); return one ? [one.innerText, one.dataset.report] : ['', '0']"
ONLINE = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}


@contextmanager
def followed(folder: Path, **keys: str) -> Iterator[tuple[Any, str]]:
    """Start a run with a live page; provide its process and the address."""
    study = write_study(folder, "live", ["bare", "bare+bridge"], **keys)
    process = start("run", study, "--live", cwd=folder, env={"PYTHONUNBUFFERED": "1"})
    try:
        text = ""
        while not (found := re.search(r"http://\S+", text)):
            line = process.stderr.readline()
            assert line, f"it ended without an address: {text}"
            text += line
        yield process, found[0]
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
            ended(process)


def is_late(entry: Mapping[str, Any]) -> bool:
    """Return whether a message is of the page's last question, after the run has ended: a busy machine asks late."""
    return "/progress?" in entry["message"] and "ERR_CONNECTION_REFUSED" in entry["message"]


def is_open(url: str) -> bool:
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname or "", address.port or 0), timeout=1).close()
    except OSError:
        return False
    return True


def test_a_browser_follows_a_study_to_its_end(tmp_path: Path) -> None:
    watch, seen = Watch(), {"0"}
    kernels = f"{{micro: {{kernels: {MICRO}}}}}"
    repetition = "{rounds: 30, max_rounds: 30, turns: 1}"  # done in twenty seconds on a quick machine
    with (
        chromium(tmp_path / "profile") as driver,
        followed(tmp_path, workloads=kernels, repetition=repetition) as (process, url),
    ):
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", ONLINE)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url[:-1], timeout=60)
        driver.get(url)
        text, _ = driver.execute_script(STATE)
        assert "running" in text
        assert violations(driver) == []
        until_s = time.monotonic() + 200
        while "all launches are done" not in text and time.monotonic() < until_s:
            text, report = driver.execute_script(STATE)
            if report not in seen and len(seen) < 3:
                assert "Preliminary" in text
                assert driver.find_elements("css selector", "table.first tbody tr")
                media(driver, "dark" if len(seen) > 1 else "light")
                assert violations(driver) == []
                seen.add(report)
            time.sleep(0.2)
        assert "60 of 60 launches done" in text
        assert len(seen) > 1, "no figures were shown"
        result = ended(process)
        severe = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE" and not is_late(entry)]
    assert severe == []
    assert result.status in (0, 3), result.stderr
    assert not is_open(url)
    assert "live" not in (tmp_path / "results/live/report.html").read_text().partition("<main>")[0].split('id="')
    assert watch.left(result.lab) == []


def test_an_interrupted_run_closes_its_page(tmp_path: Path) -> None:
    watch = Watch()
    with followed(tmp_path, repetition="{rounds: 20, max_rounds: 20}") as (process, url):
        wait_for(lambda: pids_of(f"s{process.pid}"), "lab")
        assert is_open(url)
        os.kill(process.pid, signal.SIGTERM)
        result = ended(process)
    assert result.status == 130
    assert "interrupted" in result.stderr
    assert not is_open(url)
    assert watch.left(result.lab) == []
