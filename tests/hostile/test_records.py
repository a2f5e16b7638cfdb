"""A program that prints the records of tare's library itself: none of its figures becomes one of the study's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from integration.live import compiled, live, tare, trials, write_study

pytestmark = live()
FORGE = """
import json, os, subprocess, sys
how, real = sys.argv[1:]
rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
def record(**fields):
    if rank == "0":
        print("@tare " + json.dumps(fields), flush=True)
status = 0
if how == "instead":
    record(type="start", protocol=1, program="tare-wall", ranks=2, mpi_library="x", init_s=0.01)
else:
    status = subprocess.run([real]).returncode
record(type="wall", wall_s=1e-6, rank_wall_s=[1e-6, 1e-6])
record(type="end", elapsed_s=1e-6, exit=0)
sys.exit(status)
"""


@pytest.mark.parametrize(("how", "said"), [("instead", "lack the key of this launch"), ("behind", "")])
def test_records_that_a_program_forges_are_no_figures(how: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "forge.py").write_text(FORGE)
    command = f"[{sys.executable}, ./forge.py, {how}, {compiled('misbehave', tmp_path)}]"
    study = write_study(
        tmp_path, "forged", ["bare"], cluster="local", a_a="true", placements="[{nodes: 1, ranks_per_node: 2}]",
        workloads=f"{{app: {{command: {command}, time_limit: 300s}}}}",
    )  # fmt: skip
    result = tare("run", study, cwd=tmp_path)
    assert "Traceback" not in result.stderr
    stored = trials(tmp_path / "results" / "forged")
    if said:
        assert (result.status, stored) == (4, []), result.stderr
        assert said in result.stderr
    else:
        assert result.status in (0, 3), result.stderr
        assert all(metric["value"] > 1e-5 for trial in stored for metric in trial["outcome"]["metrics"])
        assert len(stored) == 2
