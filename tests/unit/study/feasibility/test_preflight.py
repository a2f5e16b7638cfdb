"""What is read of images and programs before a launch, and which cells of a plan it makes unavailable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tare.cli import session
from tare.errors import RefusedError
from tare.images.host_mpi import HostMpi
from tare.model import Cell, Environment, LabSpec, Launching, Placement, Plan, Role, Study, Workload
from tare.runtimes.containers.deployment import Files
from tare.study.feasibility import compatibility, preflight
from tare.study.feasibility.compatibility import Application, Launcher, MpiFacts, RankHost
from tare.study.feasibility.study_files import StudyFiles
from tare.study.plan.cells import available, expand

HERE, THERE = MpiFacts(family="openmpi", version=(5, 0)), MpiFacts(family="openmpi", version=(4, 1))
ROOTFS = Path("/cache/rootfs")
HOST_MPI = HostMpi(folder=Path("/h"), launcher=Path("/h/bin/mpirun"), shown=("/h",), glibc=(2, 34))
FILES = Files(host_prefix=Path("/cache/kernels"), rootfs=ROOTFS, host_mpi=HOST_MPI)
EVERY = StudyFiles(made={("openmpi", image): FILES for image in ("", "debian-openmpi")})
Asked = tuple[Application, Launcher, RankHost, int]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Return what compatibility is asked, on a machine with HERE and an image with THERE."""
    questions: list[Asked] = []
    monkeypatch.setattr(preflight, "mpi_here", lambda _: HERE)
    monkeypatch.setattr(preflight, "mpi_inside", lambda _: THERE)
    monkeypatch.setattr(preflight, "_image_level", lambda _: 2)
    monkeypatch.setattr(preflight, "_machine_level", lambda: 3)
    monkeypatch.setattr(preflight, "glibc_of", lambda root: (2, 31) if root == ROOTFS else (2, 36))
    monkeypatch.setattr(preflight, "glibc_needed", lambda _: (2, 33))
    monkeypatch.setattr(preflight.elf, "level_needed", lambda _: 1)
    monkeypatch.setattr(preflight.program_libraries, "misfit", lambda *_: None)
    monkeypatch.setattr(preflight, "mpi_of_program", lambda program, root, seen: THERE if root else HERE)
    real = compatibility.fits
    monkeypatch.setattr(compatibility, "fits", lambda *facts: questions.append(facts) or real(*facts))  # type: ignore[func-returns-value]
    return questions


def cell(command: str = "", *, containers: int = 1, **environment: object) -> Cell:
    stated = Environment(name="e", runtime="docker", network="host", image="debian-openmpi", mpi="openmpi")
    workload = Workload(name="w", command=(command,) if command else ())
    placement = Placement(ranks_per_node=containers, containers_per_node=containers)
    made = replace(stated, **environment)  # type: ignore[arg-type]
    return Cell(key="k", group="g", role=Role.ENVIRONMENT, workload=workload, environment=made, placement=placement)


@pytest.mark.parametrize(
    ("environment", "launcher", "daemon"),
    [
        ({}, HERE, THERE),
        ({"launch": Launching.SSH}, THERE, THERE),
        ({"launch": Launching.DAEMON}, HERE, HERE),
        ({"launch": Launching.HOST_MPI}, HERE, HERE),
        ({"runtime": "apptainer", "launch": Launching.HYBRID}, HERE, HERE),
        ({"runtime": "bare", "image": ""}, HERE, HERE),
        ({"runtime": "bare", "image": "", "launch": Launching.SSH}, HERE, HERE),
    ],
)
def test_launcher_and_daemon_are_those_of_the_way_of_launching(
    environment: dict[str, object], launcher: MpiFacts, daemon: MpiFacts, asked: list[Asked]
) -> None:
    preflight.misfit(cell(**environment), FILES)
    ((_, found, _, _),) = asked
    assert (found.mpi, found.daemon) == (launcher, daemon)


def test_cells_whose_daemon_or_c_library_does_not_fit_are_unavailable(asked: list[Asked]) -> None:
    reason = preflight.misfit(cell(), FILES)
    assert str(reason).startswith("the launcher is Open MPI 5.0, which cannot work with the daemon of Open MPI 4.1")
    reason = preflight.misfit(cell(launch=Launching.HOST_MPI), FILES)
    assert str(reason).startswith("this machine's MPI needs glibc 2.34, but the image has 2.31")
    preflight.misfit(cell(containers=2), FILES)
    assert asked[-1][1] == Launcher(mpi=HERE, daemon=HERE)


def test_a_program_of_the_users_is_looked_at_where_it_runs(asked: list[Asked], tmp_path: Path) -> None:
    program = tmp_path / "app"
    program.write_bytes(b"\x7fELF")
    reason = preflight.misfit(cell(str(program), launch=Launching.SSH), FILES)
    application, _, place, machine = asked[0]
    assert application == Application(name="app", mpi=THERE, glibc=(2, 33), cpu=1)
    assert (place, machine) == (RankHost(name="the image", glibc=(2, 31), cpu=2), 3)
    assert str(reason).startswith("app needs glibc 2.33, but the image has 2.31")
    assert preflight.misfit(cell(str(program), runtime="bare", image=""), FILES) is None


@pytest.mark.parametrize("name", ["app", "/usr/games/only-in-the-image"])
def test_a_program_of_the_image_only_is_not_judged(
    name: str, asked: list[Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "program_missing", lambda *_: None)
    preflight.misfit(cell(name, launch=Launching.SSH), FILES)
    assert asked[0][0] == Application(mpi=None)
    said = preflight.misfit(cell(name, launch=Launching.HOST_MPI), FILES)
    assert str(said).startswith("this machine's MPI needs glibc 2.34")


def test_an_mpi_that_no_table_knows_is_let_through(asked: list[Asked]) -> None:
    assert preflight.misfit(cell(mpi="fake", runtime="fake"), FILES) is None
    assert asked == []


def plan(*environments: Environment) -> Plan:
    study = Study(
        name="s", cluster="lab", lab=LabSpec(), baseline=environments[0].name, environments=environments,
        placements=(Placement(),), workloads=(Workload(name="w"),), self_comparison=False,
    )  # fmt: skip
    return expand(study, lambda *_: None)


BARE = Environment(name="bare", runtime="bare", network="host")
BORROWED = replace(BARE, name="h", runtime="docker", image="debian-openmpi", launch=Launching.HOST_MPI)


def test_a_cell_that_does_not_fit_stays_with_its_reason_and_a_study_of_none_is_refused(asked: list[Asked]) -> None:
    before = plan(BARE, BORROWED)
    after = preflight.fitting(before, EVERY)
    assert after.cells == before.cells
    assert [cell.environment.name for cell in available(after)] == ["bare"]
    (reason,) = after.unavailable.values()
    assert reason.startswith("this machine's MPI needs glibc 2.34")
    assert preflight.fitting(after, EVERY) == after
    with pytest.raises(RefusedError) as caught:
        session.check_available(preflight.fitting(plan(BORROWED), EVERY))
    assert "glibc 2.34" in caught.value.message


@pytest.mark.parametrize("name", ["lib/ld-linux-aarch64.so.1", "lib/aarch64-linux-gnu/libc.so.6"])
def test_an_aarch64_image_s_loader_is_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(preflight, "mpi_of", lambda _: None)
    monkeypatch.setattr(preflight.elf, "level_needed", lambda paths: len(tuple(paths)))
    assert preflight._image_level.__wrapped__(tmp_path) == 1


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("Open MPI 4.1.4", (4, 1, 4)), ("5.0.11rc1", (5, 0, 11)), ("MPICH 4.0", (4, 0)), ("", ()), ("v5", ())],
)
def test_a_version_is_the_first_number_with_a_dot(text: str, numbers: tuple[int, ...]) -> None:
    assert preflight.numbers(text) == numbers


def test_the_mpi_of_a_program_is_that_of_the_library_it_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "usr" / "lib" / "libmpi.so.40.30.4"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\0text\x004.1.4\0")
    (library.parent / "libmpi.so.40").symlink_to("/usr/lib/libmpi.so.40.30.4")
    found = {"libc.so.6": tmp_path / "lib" / "libc.so.6", "libmpi.so.40": library.parent / "libmpi.so.40"}
    monkeypatch.setattr(preflight, "libraries", lambda program, root, seen: found)
    assert preflight.mpi_of_program(Path("/app"), tmp_path) == MpiFacts(family="openmpi", version=(4, 1, 4))
    monkeypatch.setattr(preflight, "libraries", lambda program, root, seen: {})
    assert preflight.mpi_of_program(Path("/script"), tmp_path) is None


def test_the_mpi_that_pip_or_conda_put_beside_an_mpi4py_counts(tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python3.11"
    (tmp_path / "venv/lib/python3.11/site-packages/mpi4py").mkdir(parents=True)
    library = tmp_path / "venv/lib/libmpi.so.12"
    assert preflight.of_python(python) == {}
    library.write_bytes(b"\0000.4\0004.2.3\0")
    assert preflight.of_python(python) == {"libmpi.so.12": library}
    assert preflight.of_python(python.with_name("solver")) == {}
    python.parent.mkdir()
    python.symlink_to("/usr/bin/python3")
    assert preflight.mpi_of_program(python, None) == MpiFacts(family="mpich", version=(4, 2, 3))
