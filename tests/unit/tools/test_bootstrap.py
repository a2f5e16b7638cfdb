"""`tools/bootstrap` and the tools that share tools/lib.sh: what needs neither root nor a network."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("arguments", [(), ("long",), ("run", "test")])
def test_a_profile_that_is_not_known_is_refused_and_the_known_ones_are_named(arguments: tuple[str, ...]) -> None:
    done = subprocess.run((ROOT / "tools/bootstrap", *arguments), capture_output=True, text=True, check=False)
    wanted = "bootstrap: say what to set up for: tools/bootstrap run|test|live|all|kubernetes\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", wanted)


def test_what_is_put_in_place_replaces_the_whole_folder_and_half_a_folder_of_a_killed_run(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/program").write_text("new")
    for half in ("there", "there.new"):
        (tmp_path / half).mkdir()
        (tmp_path / half / "old").touch()
    script = f'sudo() {{ shift; "$@"; }}; . tools/lib.sh; put_in_place {tmp_path}/made {tmp_path}/there'
    subprocess.run(("bash", "-euc", script), cwd=ROOT, env=os.environ, check=True)
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["program"]
    assert not (tmp_path / "there.new").exists()
