"""What docs/adding.md adds is one file and one entry, and the contract tests accept it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "adding.md").read_text()
FILE = re.compile(r"^```python title=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^```python entry=(\S+) dict=(\w+)\n(from .*?\n)(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMES = ("macvlan-private", "rootdir", "sweep", "openmpi-site")
CONTRACT = (
    "tests/contract/test_compositions.py",
    "tests/contract/test_plugins.py",
    "tests/contract/test_workload_plugins.py",
    "tests/unit/mpi/test_openmpi.py",
)
SELECTED = " or ".join(("as_it_was", *NAMES))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources and tests of tare with what the page adds."""
    top = tmp_path_factory.mktemp("adding")
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, top / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "data"))
    for name in ("kernels", "miniapps"):  # src/tare/sources has links to them
        (top / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "pyproject.toml", top)
    for path, text in FILE.findall(PAGE):
        assert not (top / path).exists(), path
        (top / path).write_text(text)
    for path, registry, line, entry in ENTRY.findall(PAGE):
        text = (top / path).read_text()
        head, found, tail = text.partition(f"\n{registry}: Final")
        assert found, path
        end = "\n}\n"
        (top / path).write_text(head + "\n" + line + found + tail.replace(end, "\n" + entry + end[1:], 1))
    return top


def run(copy: Path, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{copy / 'src'}:{copy / 'tests'}", **variables}
    return subprocess.run(
        [sys.executable, *argv], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )


def test_the_page_adds_one_file_and_one_entry_to_each_family() -> None:
    assert len(FILE.findall(PAGE)) == len(ENTRY.findall(PAGE)) == len(NAMES)


PROGRAM = f"""
import sys
import pytest
from contract.compositions import GOLDEN, PAIRS, as_table, composed
from tare.model import Placement
from tare.study.plan.composition import refuse
from tare.study import parse

study = parse("environments: [bare, rootdir+macvlan-private]\\nworkloads: {{s: {{program: sweep}}}}\\n")
assert [environment.name for environment in study.environments] == ["bare", "rootdir+macvlan-private"]
assert study.workloads[0].program == "sweep"
nodes = {{pair: {{n for n in (1, 2) if refuse(composed(*pair), Placement(nodes=n)) is None}} for pair in PAIRS}}
assert nodes["rootdir", "macvlan-private"] == {{1, 2}}
GOLDEN.write_text(as_table(nodes))
del sys.modules["contract.compositions"]  # it has read the file as it was
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", "-x", *{CONTRACT!r}, "-k", {SELECTED!r}]))
"""


def test_what_is_added_passes_the_contract_tests_and_a_study_can_name_it(copy: Path) -> None:
    done = run(copy, "-c", PROGRAM, TARE_UPDATE_GOLDEN="1")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) >= 20, "tests of the new members were selected"


@pytest.mark.parametrize(
    "tool", [pytest.param(("mypy", "--strict"), marks=pytest.mark.long), ("ruff", "check")], ids=["types", "style"]
)
def test_what_is_added_is_clean(copy: Path, tool: tuple[str, ...]) -> None:
    done = run(copy, "-m", *tool, *(path for path, _ in FILE.findall(PAGE)))
    assert done.returncode == 0, done.stdout[-2000:]
