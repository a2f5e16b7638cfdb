"""Every way in which an ordinary user's Apptainer starts a container has its command in a golden file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nodes import make_node, make_request
from tare.runtimes import RUNTIMES, apptainer
from tare.runtimes.apptainer import Apptainer
from tare.runtimes.apptainer_instance import ApptainerInstance
from tare.wiring.plug import Wiring

GOLDEN = Path(__file__).parents[2] / "golden" / "apptainer"
"""`TARE_UPDATE_GOLDEN=1 pytest tests/unit/runtimes/test_apptainer_levels.py` rewrites the golden files."""
LEVELS = ("apptainer-sif-setuid", "apptainer-sif-squashfuse", "apptainer-sif-extracted", "apptainer-instance")


@pytest.mark.parametrize("name", LEVELS)
def test_the_command_of_each_level_equals_its_golden_file(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "apptainer"
    program.write_text("#!/bin/sh\necho 'apptainer version 1.4.5'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(apptainer, "is_real_root", lambda: False)
    runtime = RUNTIMES[name]
    assert isinstance(runtime, Apptainer)
    asked = replace(
        make_request(make_node(pid=1000), wiring=Wiring.NODE, rootfs=Path("/cache/rootfs"), shown=("/opt/x",)),
        packed=Path("/cache/image.sif"),
    )
    if isinstance(runtime, ApptainerInstance):
        commands = [runtime.start_command(asked), runtime.exec_command(asked)]
    else:
        commands = [runtime.command(asked)]
    text = "\n".join("".join(f"{word}\n" for word in command) for command in commands)
    text = text.replace(str(tmp_path), "/usr/bin")
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("TARE_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()
