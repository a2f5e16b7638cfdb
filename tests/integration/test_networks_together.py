"""Two studies at once on one machine are kept apart: neither is in the other's way, and both leave nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from integration.live import Watch, by_environment, ended, live, outcome, pids_of, start, wait_for, write_study

pytestmark = [
    *live("docker", "cni", "mmdebstrap"),
    pytest.mark.long,  # the processes of `make test` have labs at the same time, too
]

ENVIRONMENTS = ["bare", "bare+bridge", "bare+macvlan", "docker+overlay"]


def test_two_studies_at_once_have_the_same_addresses_and_do_not_hear_each_other(tmp_path: Path) -> None:
    watch = Watch()
    studies = [write_study(tmp_path, name, ENVIRONMENTS) for name in ("one", "two")]
    processes = [start("run", studies[0], cwd=tmp_path)]
    wait_for(lambda: pids_of(f"s{processes[0].pid}") or processes[0].poll() is not None, "lab", 40)
    processes.append(start("run", studies[1], cwd=tmp_path))
    names = [f"s{process.pid}" for process in processes]
    wait_for(lambda: all(pids_of(name) for name in names) or any(p.poll() is not None for p in processes), "labs", 40)
    for name in names:
        watch.look(name)
    results = [ended(process, 110) for process in processes]
    assert re.search(rf"another lab is up \(process [\d, ]*{processes[0].pid}[\d, ]*\)", results[1].stderr)
    for study, result in zip(("one", "two"), results, strict=True):
        assert result.status in (0, 3), result.stderr
        found = by_environment(tmp_path / "results" / study)
        assert set(found) == set(ENVIRONMENTS)
        for name, its in found.items():
            assert [outcome(trial) for trial in its] == ["Completed"], (name, its, result.stderr)
    for name in names:
        assert watch.left(name) == []
