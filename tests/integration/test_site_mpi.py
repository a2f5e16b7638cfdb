"""The MPI that is on PATH, left as it is: bare, and injected into an image of another release of Debian."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from integration.containers import LATENCY
from integration.live import by_environment, live, outcome, tare, write_study
from integration.roots import root_of
from tare.system.paths import cache_folder

pytestmark = live("openmpi", "mpich", "apptainer", "charliecloud", "mmdebstrap")

SUBNET = "10.214.0.0/16"
SETTINGS = {"OMPI_MCA_btl_tcp_if_include": SUBNET, "UCX_NET_DEVICES": "data0"}
"""What a user's module would set, so that messages take the data network."""
CHOICE = {"openmpi": {"pml ob1", "btl tcp"}, "mpich": {"ucx tcp/data0"}}
LIBRARY = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def module(mpi: str, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """Put an MPI first on PATH, as a module does, and return the variables of a user who has loaded it.

    Its folder is always the same, so that the kernels are compiled once.
    """
    folder = cache_folder() / "test-modules" / mpi
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("mpirun", "mpicc"):
        found = shutil.which(f"{name}.{mpi}")
        assert found is not None
        with suppress(FileExistsError):
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    for name, value in {**SETTINGS, "LD_LIBRARY_PATH": "/nowhere/lib"}.items():
        monkeypatch.setenv(name, value)
    return SETTINGS


def libraries(trial: Mapping[str, Any], name: str) -> set[str]:
    """Return from where the ranks of a trial had loaded a library."""
    return {path for rank in trial["ranks"] for path in rank["libraries"] if Path(path).name.startswith(name)}


def chosen(trial: Mapping[str, Any]) -> set[str]:
    """Return what every rank's MPI chose, as it is recorded: rank by rank where the ranks differ."""
    words = trial["facts"]["transport"].partition(": ")[2]
    of_ranks = re.split(r"(?:^|[,;] )ranks? [\d ]+: ", words)
    return set.intersection(*(set(re.split(r"[,;] ", each)) for each in of_ranks if each))


@pytest.mark.long  # a root of Debian 13 is made for it
def test_the_mpi_on_path_runs_as_it_is_and_in_an_image_of_debian_13(
    mpi: str, module: Mapping[str, str], tmp_path: Path
) -> None:
    image = root_of("trixie", "libstdc++6")
    environments = (
        f"{{bare: {{mpi: site}}, inside: {{runtime: apptainer, mpi: site, image: {image}, launch: host-mpi}}}}"
    )
    done = tare("run", write_study(tmp_path, "site", environments, workloads=LATENCY), cwd=tmp_path)
    found = by_environment(tmp_path / "results/site")
    assert {name: outcome(trial) for name, (trial, *_) in found.items()} == {
        "bare": "Completed", "inside": "Completed",
    }, done.stdout + done.stderr  # fmt: skip
    for trial, *_ in found.values():
        assert ("Open MPI v4" if mpi == "openmpi" else "MPICH Version") in trial["mpi_library"]
        assert chosen(trial) >= CHOICE[mpi]
        assert trial["unproven"] == "", "the user's settings did not reach the ranks"
    (own,), (brought,) = (libraries(found[name][0], LIBRARY[mpi]) for name in ("bare", "inside"))
    assert own.startswith("/usr/lib/")
    assert "/host-mpi/" in brought
    assert not list(image.glob("usr/lib/*/libmpi*")), "the image must have no MPI of its own"
    page = (tmp_path / "results/site/report.html").read_text()
    assert brought in page
    assert own in page


@pytest.mark.long  # a root of Debian 11 is made for it
def test_an_image_that_is_too_old_is_refused_with_the_version_it_lacks(
    mpi: str, module: Mapping[str, str], tmp_path: Path
) -> None:
    image = root_of("bullseye", "python3")
    environments = f"{{bare: {{mpi: site}}, old: {{runtime: apptainer, mpi: site, image: {image}, launch: host-mpi}}}}"
    done = tare("run", write_study(tmp_path, "site", environments, workloads=LATENCY), cwd=tmp_path)
    told = " ".join(done.stdout.split())
    too_old = r"libmpi(ch)?\.so\.\d+ needs GLIBC_2\.34, and the image has glibc 2\.31"  # both are links to one file
    assert re.search(too_old, told), done.stdout + done.stderr
    assert set(by_environment(tmp_path / "results/site")) == {"bare"}


def test_the_variables_of_modules_reach_ranks_and_library_paths_of_the_host_no_container(
    mpi: str, module: Mapping[str, str], tmp_path: Path
) -> None:
    said = {}
    for runtime in ("bare", "charliecloud"):
        show = 'echo "path=$LD_LIBRARY_PATH devices=$UCX_NET_DEVICES subnet=$OMPI_MCA_btl_tcp_if_include"'
        done = tare("launch", "--runtime", runtime, "--mpi", "site", "--", "sh", "-c", show, cwd=tmp_path)
        assert done.status == 0, done.stderr
        said[runtime] = done.stdout
        assert f"devices=data0 subnet={SUBNET}" in done.stdout
    assert "/nowhere/lib" in said["bare"]
    assert "/nowhere/lib" not in said["charliecloud"]
