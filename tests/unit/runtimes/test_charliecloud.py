"""Charliecloud's command lines and probe; nothing is started."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from nodes import make_node, make_request
from tare.errors import RefusedError
from tare.runtimes import charliecloud
from tare.runtimes.charliecloud import PREPARE, SHOW, Charliecloud, ch_run
from tare.wiring.plug import Wiring


def test_a_command_is_put_behind_ch_run_and_a_pod_with_a_hostname_is_refused() -> None:
    argv = ch_run("/usr/bin/ch-run")
    assert argv[:3] == ("env", "USER=root", "/usr/bin/ch-run")
    assert "--set-env=PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" in argv
    assert argv[-2:] == ("/run/tare-charliecloud/root", "--")
    assert "--cd=/" in argv
    assert "--cd=/home/u" in ch_run("/usr/bin/ch-run", cwd="/home/u")
    assert not {"--write", "-w", "--unsafe"} & set(argv)
    request = make_request(make_node(), wiring=Wiring.NODE, rootfs=None, host="n0c1")
    with pytest.raises(RefusedError, match="hostname"), Charliecloud().pod(request):
        pass


@pytest.mark.parametrize("script", [PREPARE, SHOW])
def test_what_is_run_by_the_shell_is_a_sound_script(script: str) -> None:
    assert subprocess.run(["/bin/sh", "-n", "-c", script], check=False, capture_output=True).stderr == b""
    if shutil.which("shellcheck"):
        told = subprocess.run(
            ["shellcheck", "--shell=sh", "-"], input=script, text=True, capture_output=True, check=False
        )
        assert told.stdout == ""


def test_without_ch_run_the_probe_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charliecloud, "find", lambda program: None)
    assert Charliecloud().probe() == "ch-run is not installed: apt-get install charliecloud-runtime"


@pytest.mark.parametrize(("limit", "usable"), [("0\n", False), ("15000\n", True), (None, True)])
def test_a_machine_without_user_namespaces_is_told_apart(
    limit: str | None, usable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charliecloud, "find", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(charliecloud, "LIMIT", tmp_path / "max_user_namespaces")
    if limit is not None:
        (tmp_path / "max_user_namespaces").write_text(limit)
    reason = Charliecloud().probe()
    assert (reason is None) is usable
    assert usable or "max_user_namespaces" in str(reason)
