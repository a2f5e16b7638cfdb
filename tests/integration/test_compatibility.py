"""What becomes of two ranks whose application, launcher and daemon are of different MPIs: seen, and as it is predicted.

`TARE_UPDATE_GOLDEN=1` writes what was seen into docs/compatibility.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compatibility_table import FILE, MPIS_SHOWN, Seen, predicted, written
from factory_job import job_of
from integration.live import compiled, lab_site, live, tare
from tare.clusters.lab_site import LabSite
from tare.images import find_recipe
from tare.images.build import ensure_image
from tare.images.inside.inspect import mpi_of
from tare.model import Environment, Placement
from tare.mpi import MPIS, MpiWiring
from tare.mpi.launch import write_agent, write_map
from tare.run.deploy.hosts import Deployed
from tare.run.deploy.pods import deployed
from tare.runtimes.containers.deployment import Files
from tare.study.feasibility import compatibility
from tare.study.feasibility.compatibility import JobOutcome
from tare.system import process
from tare.system.namespaces import plain_python

pytestmark = live("openmpi5", "mpich", "mpich5", "apptainer", "mmdebstrap")

TWO = Placement(nodes=1, ranks_per_node=2)
NAMES = tuple(MPIS_SHOWN)
LIMITS_S = {True: 2.0, False: None}
"""The time limit of pairs that must fail: Hydra never stops waiting for a daemon of another MPI."""
SWAP = r"""
import os, re, sys
daemon, *argv = sys.argv[1:]
name = r'"?[^\s;"]*(?<![\w-])(?:orted|prted|hydra_pmi_proxy)"?(?=\s|$)'
argv[-1], count = re.subn(name, lambda _: daemon, argv[-1], count=1)
assert count == 1, argv[-1]
os.execvp(argv[0], argv)
"""
"""Put before the way to a host: has a launcher start another daemon than its own there."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pair")


@pytest.fixture(scope="module")
def programs(folder: Path) -> dict[str, Path]:
    return {name: compiled("pair", folder, mpi=name) for name in NAMES}


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[LabSite]:
    with lab_site(nodes=1, cores_per_node=2, shown=(folder,)) as made:
        yield made


def outcome(site: LabSite, up: Deployed, launcher: str, program: Path, *, fails: bool, daemon: str = "") -> JobOutcome:
    """Start two ranks and return what became of them."""
    hosts = up.hosts(TWO)
    if daemon:
        way = hosts[0].agent
        assert way is not None
        hosts = (replace(hosts[0], agent=replace(way, argv=(plain_python(), "-ISc", SWAP, daemon, *way.argv))),)
    wiring = MpiWiring(control_subnet=site.control_subnet, data_subnet=up.subnet)
    launch = MPIS[launcher].launch(job_of(hosts, TWO, wiring, head=site.head, programs=((str(program),),)))
    agent, path = write_agent(site.folder, plain_python()), site.folder / "map.json"
    write_map(launch, path)
    variables = {**os.environ, **MPIS[launcher].head_environment(str(agent)), "TARE_LAUNCH_MAP": str(path)}
    done = process.run(launch.argv(str(agent)), env=variables, timeout_s=LIMITS_S[fails], cwd=Path("/"), check=False)
    up.end_left()
    heard = sorted(re.findall(r"rank \d of \d heard -?\d+", done.stdout))
    if done.status == 0 and heard == ["rank 0 of 2 heard 42", "rank 1 of 2 heard 41"]:
        return JobOutcome.WORKS
    if heard == ["rank 0 of 1 heard -1"] * 2:
        return JobOutcome.ALONE
    assert heard == [], (done.stdout, done.stderr)
    return JobOutcome.FAILS


@pytest.fixture(scope="module")
def seen(site: LabSite, folder: Path, programs: dict[str, Path]) -> Seen:
    """Run all pairs: an application under a launcher, and a launcher with a daemon in a container."""
    expected = predicted()
    starts: dict[tuple[str, str], JobOutcome] = {}
    controls: dict[tuple[str, str], JobOutcome] = {}
    bare = Environment(name="bare", runtime="bare", network="host")
    with deployed(site, bare, TWO, slot=0, nic=0, files=Files(host_prefix=folder)) as up:
        for application in NAMES:
            for launcher in NAMES:
                fails = expected.starts[application, launcher] is JobOutcome.FAILS
                starts[application, launcher] = outcome(site, up, launcher, programs[application], fails=fails)
    for number, name in enumerate(NAMES):
        rootfs = ensure_image(find_recipe(f"debian-{name}")).rootfs
        inside = mpi_of(rootfs)
        assert inside is not None
        files = Files(host_prefix=folder, rootfs=rootfs, shown=(str(folder),))
        contained = Environment(name="e", runtime="apptainer", network="host", image=f"debian-{name}", mpi=name)
        with deployed(site, contained, TWO, slot=number + 1, nic=0, files=files) as up:
            for launcher in NAMES:
                fails = expected.controls[name, launcher] is JobOutcome.FAILS
                controls[name, launcher] = outcome(
                    site, up, launcher, programs[name], fails=fails, daemon=inside.daemon
                )
    return Seen(starts=starts, controls=controls)


@pytest.mark.long  # four images, and what hangs
def test_what_happens_is_what_is_predicted(seen: Seen) -> None:
    expected = predicted()
    assert dict(seen.starts) == dict(expected.starts)
    assert dict(seen.controls) == dict(expected.controls)


@pytest.mark.long
def test_the_table_in_docs_is_what_was_seen(seen: Seen) -> None:
    path = Path(__file__).parents[2] / FILE
    text = written(path.read_text(), seen)
    if os.environ.get("TARE_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert path.read_text() == text


# --- in tare launch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("application", "mpi", "said"),
    [
        ("mpich", "openmpi", "started by Open MPI 4.1, each rank would be alone"),
        ("openmpi5", "mpich", "started by MPICH 4.0, each rank would be alone"),
        ("mpich5", "openmpi5", "which stops under Open MPI 5.0's PMIx"),
    ],
)
def test_a_launch_that_cannot_fit_is_refused_before_anything_is_made(
    application: str, mpi: str, said: str, programs: dict[str, Path], folder: Path
) -> None:
    result = tare("launch", "--mpi", mpi, "-n", "2", "--", programs[application], cwd=folder)
    assert result.status == 125
    assert said in result.stderr
    assert "heard" not in result.stdout


@pytest.mark.parametrize(
    ("application", "mpi"), [("openmpi5", "openmpi"), ("openmpi", "openmpi5"), ("mpich", "mpich5")]
)
def test_what_fits_is_launched_across_versions(
    application: str, mpi: str, programs: dict[str, Path], folder: Path
) -> None:
    assert compatibility.starts(MPIS_SHOWN[application], MPIS_SHOWN[mpi])[0] is JobOutcome.WORKS
    result = tare("launch", "--mpi", mpi, "-n", "2", "--", programs[application], cwd=folder)
    assert result.status == 0, result.stderr
    assert result.stdout.count("of 2 heard 4") == 2
