"""The wheel and the sdist hold all that is needed, the C sources among it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import typer

from source_tree import ROOT, program
from tare.cli.bundle.wheels import own_wheel
from tare.images.recipe import PROBE, source_files
from tare.images.sources import kernels_source, miniapps_source

release = program("release")
MADE = shutil.ignore_patterns(".*", "build", "build-*", "dist", "results", "*.egg-info", "__pycache__")
SOURCES = sorted(
    f"tare/images/sources/{folder.name}/{path.relative_to(folder)}"
    for folder in (kernels_source(), miniapps_source())
    for path in (*source_files(folder), *(folder / PROBE).glob("*.[ch]"))
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with a wheel and an sdist, built from a copy of this clone, in which something was built."""
    folder = tmp_path_factory.mktemp("wheel")
    clone = folder / "clone"
    shutil.copytree(ROOT, clone, symlinks=True, ignore=MADE)
    (clone / "kernels/build-here/CMakeFiles").mkdir(parents=True)
    (clone / "kernels/build-here/CMakeFiles/probe.c").write_text("int main(void) { return 0; }\n")
    release.build(clone, folder, "1700000000")
    return folder


@pytest.fixture(scope="module")
def installed(built: Path) -> Path:
    """Return a folder with what the wheel installs."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(built / "site")
    return built / "site"


def python(site: Path, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program with an installed package; no `.pth` file leads it back to this clone."""
    libraries = os.pathsep.join((str(site), str(Path(typer.__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": libraries, **variables}
    argv = (sys.executable, "-S", "-c", program)
    return subprocess.run(argv, cwd=site.parent, env=environment, capture_output=True, text=True, check=False)


def test_the_wheel_has_every_source_and_nothing_that_was_built(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert sorted(name for name in names if name.startswith("tare/images/sources/") and name.count("/") > 3) == SOURCES
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules <= set(names)


def test_the_sdist_has_every_source_as_a_file(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        files = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert {f"src/{name}" for name in SOURCES} <= files
    assert not any("build-here" in name for name in files)


def test_an_installed_package_finds_its_own_sources_with_the_digest_of_this_clone(installed: Path) -> None:
    program = (
        "import tare; from tare.images.sources import *; from tare.images.recipe import sources_digest\n"
        "print(tare.__file__, kernels_source(), sources_digest(kernels_source(), miniapps_source()))"
    )
    result = python(installed, program)
    assert result.returncode == 0, result.stderr
    package, kernels, digest = result.stdout.split()
    assert (package, kernels) == (str(installed / "tare/__init__.py"), str(installed / "tare/images/sources/kernels"))
    from tare.images.recipe import sources_digest

    assert digest == sources_digest(kernels_source(), miniapps_source())


def test_the_doctor_answers_from_an_installed_package(installed: Path, tmp_path: Path) -> None:
    program = "import sys; sys.argv = ['tare', 'doctor']; from tare.cli.app import main; main()"
    result = python(installed, program, TARE_CACHE=str(tmp_path))
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr
    assert "openmpi" in result.stdout


def test_the_wheel_of_a_bundle_has_the_files_of_the_built_one(built: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel, zipfile.ZipFile(own_wheel(tmp_path)) as own:
        names, bundled = ({name for name in archive.namelist() if name.startswith("tare/")} for archive in (wheel, own))
        assert bundled == names
        assert all(own.read(name) == wheel.read(name) for name in names)
