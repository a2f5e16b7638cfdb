"""What somebody does who has just got tare: a clone or a wheel anywhere, a program anywhere, `tare quick`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from integration.live import by_environment, compiled, ended, lab_site, live, outcome, start, tare
from unit.tools.test_wheel import built  # noqa: F401 - a fixture

pytestmark = live()


@pytest.mark.requires("apptainer")
def test_a_program_of_path_writes_to_the_current_folder_only_if_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = compiled("writes", tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for name, more in (("locked", ()), ("open", ("--writable",))):
        folder = tmp_path / name
        folder.mkdir()
        options = ("--rounds", "1", "--environments", "bare,apptainer", "-x", "GIVEN=it is", *more)
        result = tare("quick", *options, "--", program.name, cwd=folder)
        (results,) = folder.glob(f"results/quick-{program.name}*")
        found = {key: outcome(its[0]) for key, its in by_environment(results).items()}
        names = ("bare", "bare (A/A)", "apptainer")
        assert found == (dict.fromkeys(names, "Completed") if more else {}), result.stderr
        told = re.search(r"^tare: (.*): read-only in any environment\. If the program writes", result.stderr, re.M)
        assert (told is not None and str(folder) in told.group(1).split(", ")) == (not more), result.stderr
        assert ("does not run in the baseline (bare)" in result.stderr) == (not more)
    assert (tmp_path / "open/written-by-1").read_text() == "it is\n"
    assert not (tmp_path / "locked/written-by-1").exists()


def test_the_nodes_see_the_current_folder_below_tmp_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    for folder in (here, tmp_path / "beside"):
        folder.mkdir()
    monkeypatch.chdir(here)
    assert here.is_relative_to("/tmp"), "pytest's own folders are elsewhere, so that this shows nothing"
    with lab_site() as site:
        for node in site.nodes:
            assert [path.name for path in Path(f"/proc/{node.pid}/root{tmp_path}").iterdir()] == ["here"]


@pytest.mark.parametrize(
    "cached",
    [True, pytest.param(False, marks=pytest.mark.long, id="compiles its kernels")],
)
def test_an_installed_wheel_compares_a_program(
    cached: bool,
    built: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")
    program = compiled("where", tmp_path)
    libraries = os.pathsep.join((str(tmp_path / "site"), sysconfig.get_paths()["purelib"]))
    cache = {} if cached else {"TARE_CACHE": str(tmp_path / "cache")}
    process = start(
        "quick", "--rounds", "1", "--environments", "bare", "--", f"./{program.name}",
        cwd=tmp_path,
        env={"PYTHONPATH": libraries, **cache},
        python=(sys.executable, "-S"),
    )  # fmt: skip
    result = ended(process)
    assert cached or "kernels and mini-applications for openmpi: compiling" in result.stderr
    found = by_environment(next(tmp_path.glob(f"results/quick-{program.name}*")))
    assert {outcome(trial) for its in found.values() for trial in its} == {"Completed"}, result.stderr
    where = (sys.executable, "-S", "-c", "import tare; print(tare.__file__)")
    told = subprocess.run(where, env={"PYTHONPATH": libraries}, capture_output=True, text=True, check=True).stdout
    assert told.strip() == str(tmp_path / "site/tare/__init__.py")
