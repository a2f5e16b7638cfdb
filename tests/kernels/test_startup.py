"""tare-startup: when ranks came to main, what MPI_Init took, and small files that are read as they are."""

from __future__ import annotations

import shutil
import time

import pytest

from kernels.launching import SANITIZERS, execute
from tare.workloads.declared.files import IMAGE_KIB
from tare.workloads.startup import MODULES

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake", "openmpi")]


@pytest.fixture
def start(launch, build):
    """Return a function that runs it on the files of its build, or of another folder."""

    def run(folder=None, variant="openmpi", **more):
        given = folder or build(variant) / "modules"
        return launch(str(given), program="tare-startup", variant=variant, **more)

    return run


@pytest.mark.parametrize(
    ("mpi", "ranks"),
    [
        ("openmpi", 1),
        ("openmpi", 3),
        ("openmpi-sanitized", 2),
        *(pytest.param(mpi, 2, marks=pytest.mark.requires(mpi)) for mpi in ("openmpi5", "mpich", "mpich5")),
        pytest.param("mpich-sanitized", 1, marks=pytest.mark.requires("mpich")),
    ],
)
def test_moments_of_all_ranks_lie_between_the_launchers_start_and_its_end(start, mpi, ranks):
    before = time.monotonic()
    run = start(ranks=ranks, variant=mpi, env=SANITIZERS)
    after = time.monotonic()
    assert run.code == 0, run.stderr
    assert run.types == ["start", *["rank"] * ranks, "startup", "usage", "end"]
    (told,) = run.of_type("startup")
    assert (told["modules"], told["wrong_modules"], told["verified"]) == (MODULES, 0, True)
    for name in ("main", "init", "ready", "modules"):
        assert len(told[f"rank_{name}_s"]) == ranks
    assert run.lines[0]["init_s"] == max(told["rank_init_s"]) > 0
    assert min(told["rank_modules_s"]) > 0
    moments = zip(told["rank_main_s"], told["rank_init_s"], told["rank_ready_s"], strict=True)
    for main_s, init_s, ready_s in moments:
        assert before < main_s < main_s + init_s <= ready_s < after
    # none leaves the barrier before the last has come to it
    assert min(told["rank_ready_s"]) > max(told["rank_main_s"])


def test_the_build_makes_small_files_in_packages(build):
    files = sorted((build("openmpi") / "modules").rglob("module*"))
    assert len(files) == 1000
    assert len({file.parent for file in files}) == 40
    sizes = [file.stat().st_size for file in files]
    assert 128 <= min(sizes) < max(sizes) <= 4096
    assert (build("openmpi") / "modules" / "content").stat().st_size == IMAGE_KIB << 10


@pytest.mark.parametrize("damage", ["changed", "longer", "shorter", "removed"])
def test_a_file_that_is_not_as_it_should_be_is_wrong_data(start, build, tmp_path, damage):
    folder = tmp_path / "modules"
    shutil.copytree(build("openmpi") / "modules", folder)
    file = folder / "package03" / "module080"
    data = file.read_bytes()
    if damage == "removed":
        file.unlink()
    else:
        file.write_bytes({"changed": b"X" + data[1:], "longer": data + b"\n", "shorter": data[:-1]}[damage])
    run = start(folder)
    assert run.code == 3
    told = run.of_type("startup")[0]
    assert (told["wrong_modules"], told["verified"]) == (2, False)  # each of two ranks saw it
    assert run.lines[-1]["exit"] == 3


def test_without_its_folder_it_says_what_is_needed_and_starts_no_mpi(build):
    run = execute(build("openmpi") / "tare-startup")
    assert run.code == 2
    assert "the folder of the small files" in run.stderr
    assert run.stdout == ""
