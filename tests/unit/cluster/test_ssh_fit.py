"""What makes a host unfit for jobs of the head is said before the first launch."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tare.cluster import remote_cluster
from tare.errors import RefusedError
from tare.mpi import MPIS
from tare.remote import fit
from tare.remote.machine import this_machine


class Flags:
    def __init__(self, flag: int) -> None:
        self.f_flag = flag


def test_versions_of_an_mpi_that_differ_are_both_named() -> None:
    own = MPIS["fake"].version()
    assert fit.unfit("fake", own, ()) is None
    assert fit.unfit("fake", "fake 2", ()) == f"its {own} is not the head's fake 2, and one job needs one version"


def test_a_file_system_without_programs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(fit.os, "statvfs", lambda path: asked.append(path) or Flags(os.ST_NOEXEC))
    below = tmp_path / "cache" / "tare"
    reason = fit.unfit("fake", MPIS["fake"].version(), (str(below),))
    assert reason == f"{below} is mounted noexec: no program can be started from it"
    assert asked == [tmp_path]


def test_machines_that_differ_or_are_listed_twice_are_refused() -> None:
    own = this_machine()
    other = replace(own, architecture="riscv64", boot_id="another")
    with pytest.raises(RefusedError, match=f"beta is riscv64 and this machine {own.architecture}"):
        remote_cluster.check_machines(("alpha", "beta"), (own, other), owned=False)
    own = this_machine()
    with pytest.raises(RefusedError, match="alpha is the same machine as another of the hosts"):
        remote_cluster.check_machines(("alpha", "beta"), (own, own), owned=False)
