"""`tare-run`: finds a program, gives it its input and a folder, prints its results, and ends as it does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[4] / "kernels" / "run" / "tare-run.sh"
RANKS = {"OMPI_COMM_WORLD_SIZE": "6"}


def run(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{folder}:/usr/bin:/bin", **variables}
    return subprocess.run(("sh", SCRIPT, *arguments), capture_output=True, text=True, check=False, env=environment)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("inside", ["", "bin", "libexec/osu-micro-benchmarks/mpi/pt2pt", "other"])
def test_a_program_is_found_below_a_folder(tmp_path: Path, inside: str) -> None:
    program(tmp_path / "a b" / inside / "osu_x", 'echo "$#:$1"')
    done = run("-p", str(tmp_path / "a b"), "osu_x", "-m 8", folder=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("1:-m 8\n", "", 0)


def test_path_comes_before_the_usual_places_and_the_study_before_both(tmp_path: Path) -> None:
    for name in ("path", "usual", "study"):
        program(tmp_path / name / "osu_x", f"echo {name}")
    usual = f"/nowhere:{tmp_path}/us*"
    assert run("-d", usual, "osu_x", folder=tmp_path / "path").stdout == "path\n"
    assert run("-d", usual, "osu_x", folder=tmp_path).stdout == "usual\n"
    assert run("-p", str(tmp_path / "study" / "osu_x"), "osu_x", folder=tmp_path / "path").stdout == "study\n"


def test_a_program_that_is_nowhere_is_told_with_where_it_was_looked_for(tmp_path: Path) -> None:
    done = run("-d", "/nowhere/bin", "osu_x", folder=tmp_path)
    assert (done.returncode, done.stderr) == (127, "tare-run: osu_x is neither on PATH nor in /nowhere/bin\n")


def test_files_are_written_and_read_in_a_folder_that_is_removed(tmp_path: Path) -> None:
    program(tmp_path / "writer", "pwd; echo result 1 >out.a.txt; echo result 2 >out.b.txt; exit 3")
    done = run("-f", "-o", "out*.txt", "writer", folder=tmp_path)
    folder, *rest = done.stdout.split()
    assert rest == ["result", "1", "result", "2"]
    assert done.returncode == 3
    assert re.fullmatch(r"/(tmp|dev/shm)/tare-run\.\w+", folder)
    assert not Path(folder).exists()


def lines_for(tmp_path: Path, order: str, **variables: str) -> list[str]:
    program(tmp_path / "reader", "cat HPL.dat")
    done = run("-f", "-l", "HPL.dat", "-n", order, "-b", "48,128", "reader", folder=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_input_of_hpl_has_the_grid_of_the_ranks_and_all_blocking_factors(tmp_path: Path) -> None:
    lines = lines_for(tmp_path, "n=1000", **RANKS)
    words = [line.split()[0] for line in lines]
    assert len(lines) == 36
    assert words[4:6] == ["1", "1000"]
    assert (words[6], lines[7]) == ("2", "48 128")
    assert words[9:12] == ["1", "2", "3"]  # one grid, 2 x 3
    assert words[12] == "16.0"


@pytest.mark.parametrize(("ranks", "grid"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (7, (1, 7)), (12, (3, 4))])
def test_the_grid_is_as_square_as_the_ranks_allow(tmp_path: Path, ranks: int, grid: tuple[int, int]) -> None:
    lines = lines_for(tmp_path, "n=10", PMI_SIZE=str(ranks))
    assert (int(lines[10].split()[0]), int(lines[11].split()[0])) == grid


def test_the_order_fills_a_share_of_the_memory_and_is_a_multiple_of_the_blocking_factor(tmp_path: Path) -> None:
    n = int(lines_for(tmp_path, "memory=0.25", **RANKS)[5])
    found = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert found
    memory = 1024 * int(found[1])
    assert n % 48 == 0
    assert 8 * n * n <= 0.25 * memory < 8 * (n + 48) ** 2


@pytest.mark.parametrize(
    ("arguments", "variables", "told"),
    [
        (("-f", "-l", "HPL.dat", "-n", "n=10", "-b", "8", "true"), {}, "does not tell how many ranks"),
        (("-f", "-l", "HPL.dat", "-n", "all", "-b", "8", "true"), RANKS, "-n takes n=N or memory=F, not all"),
        (("-f",), {}, "a program to run is missing"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_run(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], told: str
) -> None:
    done = run(*arguments, folder=tmp_path, **variables)
    assert done.returncode == 2
    assert told in done.stderr
