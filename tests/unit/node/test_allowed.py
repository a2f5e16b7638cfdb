"""What the kernel lets a process do and have is read from its files, and what cannot be read is left out."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from tare.node.allowed import OF_POD, read_allowed


def test_the_limits_and_rights_of_a_process_are_read_as_it_has_them(tmp_path: Path) -> None:
    (tmp_path / "pids.max").write_text("2048\n")
    found = read_allowed(os.getpid(), (tmp_path / "other", tmp_path), str(tmp_path))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert found["pod open files"] == str(files)
    assert found["pod user"] == str(os.geteuid())
    assert found["pod processes in its cgroup"] == "2048"
    assert found["pod working folder"] == "writable"
    assert int(found["pod capabilities"], 16) >= 0
    assert {"pod stack", "pod seccomp", "pod no new privileges", "pod /dev/shm"} <= found.keys()
    assert all(name.startswith(OF_POD) and text for name, text in found.items())


def test_a_folder_that_a_pod_does_not_see_is_told_and_a_process_that_is_gone_has_no_facts(tmp_path: Path) -> None:
    assert read_allowed(os.getpid(), folder=str(tmp_path / "no"))["pod working folder"] == "not there"
    assert read_allowed(2**22 + 1) == {}
