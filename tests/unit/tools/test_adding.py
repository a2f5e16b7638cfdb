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


@pytest.mark.timeout(300)  # three runs of pytest, ten seconds alone, two minutes beside a study that measures
def test_what_is_added_passes_the_contract_tests_and_a_study_can_name_it(copy: Path) -> None:
    pytest_ = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", *CONTRACT)
    golden = run(copy, *pytest_, "-k", "written_down", TARE_UPDATE_GOLDEN="1")
    assert golden.returncode == 0, golden.stdout[-3000:]
    (_, *runtimes), *rows = (line.split() for line in (copy / "tests/golden/compositions.txt").read_text().splitlines())
    assert {name: cells for name, *cells in rows}["macvlan-private"][runtimes.index("rootdir")] == "1,2"
    chosen = run(copy, *pytest_, "-k", " or ".join(("as_it_was", *NAMES)), TARE_UPDATE_GOLDEN="1")
    assert chosen.returncode == 0, chosen.stdout[-3000:]
    assert int(re.findall(r"(\d+) passed", chosen.stdout)[-1]) > 50
    program = (
        "from tare.study import parse\n"
        "study = parse('environments: [bare, rootdir+macvlan-private]\\n"
        "workloads: {s: {program: sweep}}\\n')\n"
        "print(study.environments[1].name, study.workloads[0].program)"
    )
    parsed = run(copy, "-c", program)
    assert parsed.stdout.split() == ["rootdir+macvlan-private", "sweep"], parsed.stderr[-2000:]


@pytest.mark.parametrize(
    "tool", [pytest.param(("mypy", "--strict"), marks=pytest.mark.long), ("ruff", "check")], ids=["types", "style"]
)
def test_what_is_added_is_clean(copy: Path, tool: tuple[str, ...]) -> None:
    done = run(copy, "-m", *tool, *(path for path, _ in FILE.findall(PAGE)))
    assert done.returncode == 0, done.stdout[-2000:]
