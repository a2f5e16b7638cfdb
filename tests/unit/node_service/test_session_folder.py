"""Root's daemon follows no link, and starts no program, that a rank has put into the session folder."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node
from tare.host.namespaces import hold
from tare.node_service.session_folder import session_folder

pytestmark = [pytest.mark.root, pytest.mark.requires("root")]


def test_it_is_private_and_mounted_without_links_rights_and_devices(tmp_path: Path) -> None:
    pid = hold(f"tare:utest{os.getpid()}:n0", {"new": ["mnt"]})
    try:
        with session_folder(tmp_path, 3, replace(make_node(), pid=pid), "n0") as folder:
            assert os.stat(folder).st_mode & 0o777 == 0o700
            assert os.listdir(folder) == []
            lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
            (options,) = (words[5].split(",") for line in lines if (words := line.split())[4] == folder)
            assert {"nosuid", "nodev", "nosymfollow"} <= set(options)
        assert list(tmp_path.iterdir()) == []
    finally:
        os.kill(pid, signal.SIGKILL)
