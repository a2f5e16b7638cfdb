"""Programs of others are brought, called and refused as their adapters say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tare.images import mpi_wheels
from tare.model import Placement
from tare.workloads.programs import PROGRAMS, hpl
from tare.workloads.programs.hpl import operations as hpl_operations
from tare.workloads.programs.locate import found, missing
from tare.workloads.programs.neuron import DRIVER, PLACE
from tare.workloads.programs.npb import operations
from unit.workloads.programs.known import OUTPUTS, Output


def placed(ranks: int) -> Placement:
    return Placement(nodes=1, ranks_per_node=ranks)


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.file)
def test_what_was_run_is_not_refused_and_has_an_expected_time(output: Output) -> None:
    adapter, placement = output.adapter, placed(output.ranks)
    assert adapter.refuse(output.arguments, placement) is None
    assert 0 < adapter.expected_s(output.arguments, placement) < 3600


def test_a_share_of_the_memory_takes_as_long_as_the_matrix_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpl, "machine_memory", lambda: 24 << 30)
    of_order, of_share = (PROGRAMS["hpl"].expected_s((each,), placed(2)) for each in ("n=2538", "memory=0.002"))
    assert of_share == pytest.approx(of_order, rel=1e-6)
    assert PROGRAMS["hpl"].expected_s(("memory=0.8",), placed(2)) > 3600


@pytest.mark.parametrize(
    ("program", "arguments", "ranks", "told"),
    [
        ("osu_latency", (), 4, "osu_latency runs on exactly 2 ranks, but the placement has 4"),
        ("osu_bibw", (), 1, "exactly 2 ranks"),
        ("osu_barrier", (), 1, "needs 2 ranks or more"),
        ("osu_bw", ("-m", "big"), 2, "-m takes MIN:MAX or MAX"),
        ("osu_bw", ("-m",), 2, "-m takes MIN:MAX or MAX"),
        ("osu_alltoall", ("-m", "8:4"), 2, "-m takes MIN:MAX or MAX"),
        ("osu_alltoall", (), 1024, "because OSU limits buffers to 512 MiB: add -M 1073741824 or -m 1"),
        ("osu_mbw_mr", (), 3, "needs an even number of ranks, but the placement has 3"),
        ("IMB-MPI1", (), 2, "name the benchmarks to run"),
        ("IMB-MPI1", ("-npmin", "2"), 2, "name the benchmarks to run"),
        ("IMB-MPI1", ("-msglog", "9:3", "PingPong"), 2, "-msglog takes MIN:MAX"),
        ("npb", (), 4, "the first argument is the binary's name"),
        ("npb", ("bt.E.x",), 4, "a class of S W A B C D"),
        ("npb", ("xx.A.x",), 4, "a kernel of ep is cg mg ft bt sp lu"),
        ("npb", ("bt.A.9",), 4, "compiled for 9 ranks, but the placement has 4"),
        ("npb", ("bt.A.x",), 2, "a square number of ranks"),
        ("npb", ("cg.A.x",), 6, "a power of two of ranks"),
        ("npb", ("lu.A.x",), 5, "no more than twice as long as wide"),
        ("hpcg", ("nx=33",), 2, "multiples of 8"),
        ("hpcg", ("nx=8",), 2, "nx=8 is not valid: use a whole number from 16"),
        ("hpcg", ("nx=256", "ny=16"), 2, "longer than 8 times"),
        ("hpcg", ("size=32",), 2, "'size=32'; write KEY=VALUE with a key of nx, ny, nz, rt"),
        ("hpl", ("n=1000", "memory=0.5"), 2, "not both"),
        ("hpl", ("memory=2",), 2, "a number from 1e-06 to 0.95"),
        ("hpl", ("memory=nan",), 2, "a number from 1e-06 to 0.95"),
        ("hpcc", ("nb=0",), 2, "nb=0 is not valid: use a whole number from 1"),
        ("hpcc", ("nb=64,,128",), 2, "a whole number from 1"),
        ("hpcc", ("n=ten",), 2, "n=ten is not valid: use a whole number"),
        ("minife", ("nx=1", "ny=1", "nz=1"), 2, "fewer than the ranks"),
        ("graph500", (), 3, "a power of two of ranks"),
        ("graph500", ("scale=99",), 2, "scale=99 is not valid: use a whole number from 4 to 40"),
        ("kmi", (), 1, "2 ranks or more"),
        ("kmi", ("l=10",), 2, "longer than the reads"),
        ("iperf3", (), 1, "2 ranks or more"),
        ("iperf3", ("-s",), 2, "tare starts both sides itself"),
        ("iperf3", ("--port=1",), 2, "tare starts both sides itself"),
        ("iperf3", ("--bidir",), 2, "--bidir has a figure for each direction"),
        ("gromacs", ("-s", "topol.tpr"), 2, "-s topol.tpr must be an absolute path"),
        ("hnn", ("tstop=21",), 2, "no known result to check against (allowed: tstop=170 mesh=10"),
        ("hnn", ("tstop=soon",), 2, "tstop=soon is not valid: use a whole number"),
    ],
)
def test_what_cannot_run_is_refused(program: str, arguments: tuple[str, ...], ranks: int, told: str) -> None:
    refused = PROGRAMS[program].refuse(arguments, placed(ranks))
    assert refused is not None
    assert told in refused


@pytest.mark.parametrize(
    ("kernel", "taken"), [("ep", (1, 3, 7)), ("is", (1, 2, 8)), ("bt", (1, 4, 9, 16)), ("lu", (1, 2, 4, 6, 8, 12))]
)
def test_the_rank_counts_of_the_npb_are_taken(kernel: str, taken: tuple[int, ...]) -> None:
    for ranks in taken:
        assert PROGRAMS["npb"].refuse((f"{kernel}.A.x",), placed(ranks)) is None


def test_operations_are_those_that_the_programs_count() -> None:
    # Mop/s and seconds of runs of NPB 3.3.1 and HPL 2.3; seconds have two decimals
    assert operations("bt", "W") == pytest.approx(14061.67e6 * 0.55, rel=0.01)
    assert operations("cg", "A") == pytest.approx(7451.35e6 * 0.20, rel=0.03)
    assert operations("is", "W") == 10 * 2**20
    assert hpl_operations(1000) == pytest.approx(48.808e9 * 0.0136897, rel=1e-3)


def test_arguments_are_passed_on_and_paths_of_the_study_looked_at() -> None:
    assert PROGRAMS["osu_latency"].argv(("-m", "8:8"))[-3:] == ("osu_latency", "-m", "8:8")
    assert PROGRAMS["IMB-MPI1"].argv(("-npmin", "2", "PingPong"))[-4:] == ("IMB-MPI1", "-npmin", "2", "PingPong")
    assert PROGRAMS["IMB-MPI1"].argv(("PingPong",))[-4:] == ("IMB-MPI1", "-npmin", "1000000", "PingPong")
    assert PROGRAMS["npb"].argv(("cg.A.x",))[-1] == "cg.A.x"
    assert PROGRAMS["lammps"].argv(("-in", "/in.lj"))[-5:] == ("lmp", "-log", "none", "-in", "/in.lj")
    assert PROGRAMS["osu_alltoall"].refuse(("-M", "2000000000"), placed(1024)) is None
    argv = PROGRAMS["osu_latency"].argv((), "/opt/osu")
    assert argv == ("tare-run", "-p", "/opt/osu", "osu_latency")
    assert PROGRAMS["iperf3"].argv((), "/opt/iperf")[2] == "/opt/iperf/iperf3"
    assert PROGRAMS["iperf3"].argv((), "/opt/iperf/iperf3")[2] == "/opt/iperf/iperf3"
    assert PROGRAMS["hnn"].argv((), "/opt/hnn")[:2] == ("/opt/hnn/bin/hnn-python", "/opt/hnn/jones2009.py")


def test_programs_that_write_files_get_a_folder_and_iperf3_has_its_two_sides_started() -> None:
    argv = PROGRAMS["hpcc"].argv(("memory=0.25", "nb=64,128"))
    assert argv[0] == "tare-run"
    assert argv[3:] == ("-f", "-l", "hpccinf.txt", "-n", "memory=0.25", "-b", "64,128", "-o", "hpccoutf.txt", "hpcc")
    assert PROGRAMS["hpcg"].argv(("rt=0",))[3:] == (
        "-f", "-o", "HPCG-Benchmark*.txt", "xhpcg", "--nx=32", "--ny=32", "--nz=32", "--rt=0",
    )  # fmt: skip
    assert PROGRAMS["iperf3"].argv(("-u", "-b", "0")) == (
        "tare-pair", "+server", "iperf3", "-s", "-1", "-p", "{port}",
        "+client", "iperf3", "-c", "{address}", "-p", "{port}", "-J", "-u", "-b", "0",
    )  # fmt: skip


def program(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_program_is_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing(PROGRAMS["hpcc"]) == "hpcc is not here: apt-get install hpcc"
    here = program(tmp_path / "hpcc")
    assert found(PROGRAMS["hpcc"]) == here
    assert missing(PROGRAMS["hpcc"]) is None


@pytest.mark.parametrize("inside", ["", "bin", "libexec/osu-micro-benchmarks/mpi/pt2pt", "mpi/collective", "osu"])
def test_a_program_is_found_below_a_folder_of_the_study(tmp_path: Path, inside: str) -> None:
    here = program(tmp_path / inside / "osu_latency")
    assert found(PROGRAMS["osu_latency"], (), str(tmp_path)) == here
    assert found(PROGRAMS["osu_latency"], (), str(here)) == here


def test_a_program_is_found_on_path_or_by_the_links_of_an_image_and_its_absence_told(tmp_path: Path) -> None:
    program(tmp_path / "bt.A.4").chmod(0o644)
    assert missing(PROGRAMS["npb"], ("bt.A.4",), str(tmp_path)) == (
        f"bt.A.4 is neither {tmp_path} nor in a folder below it here: correct path: in the study"
    )
    inside = program(tmp_path / "opt/hpcc/hpcc")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/hpcc").symlink_to("/opt/hpcc/hpcc")
    assert found(PROGRAMS["hpcc"], root=tmp_path) == Path("/usr/bin/hpcc")
    assert found(PROGRAMS["hpcc"], (), "/opt/hpcc", tmp_path) == Path("/opt/hpcc/hpcc")
    inside.unlink()
    assert missing(PROGRAMS["hpcc"], root=tmp_path, image="debian-openmpi") == (
        "hpcc is not in the image: make an image that has it by `tare image add debian-openmpi hpcc`"
    )


ROOT = Path(__file__).parents[4]
SCRIPT = ROOT / "kernels" / "run" / "tare-run.sh"
RANKS = {"OMPI_COMM_WORLD_SIZE": "6"}


def run(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{folder}:/usr/bin:/bin", **variables}
    return subprocess.run(("sh", SCRIPT, *arguments), capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("inside", ["", "bin", "libexec/osu-micro-benchmarks/mpi/pt2pt", "other"])
def test_a_program_is_found_below_a_folder(tmp_path: Path, inside: str) -> None:
    program(tmp_path / "a b" / inside / "osu_x", 'echo "$#:$1"')
    done = run("-p", str(tmp_path / "a b"), "osu_x", "-m 8", folder=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("1:-m 8\n", "", 0)


def test_a_program_is_looked_for_in_the_study_on_path_and_in_the_usual_places_and_else_told(tmp_path: Path) -> None:
    for name in ("path", "usual", "study"):
        program(tmp_path / name / "osu_x", f"echo {name}")
    usual = f"/nowhere:{tmp_path}/us*"
    assert run("-d", usual, "osu_x", folder=tmp_path / "path").stdout == "path\n"
    assert run("-d", usual, "osu_x", folder=tmp_path).stdout == "usual\n"
    assert run("-p", str(tmp_path / "study" / "osu_x"), "osu_x", folder=tmp_path / "path").stdout == "study\n"
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


def test_the_input_of_hpl_has_the_grid_blocking_factors_and_share_of_memory(tmp_path: Path) -> None:
    lines = lines_for(tmp_path, "n=1000", **RANKS)
    words = [line.split()[0] for line in lines]
    assert len(lines) == 36
    assert words[4:6] == ["1", "1000"]
    assert (words[6], lines[7]) == ("2", "48 128")
    assert words[9:12] == ["1", "2", "3"]  # one grid, 2 x 3
    assert words[12] == "16.0"
    n = int(lines_for(tmp_path, "memory=0.25", **RANKS)[5])
    found = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert found
    memory = 1024 * int(found[1])
    assert n % 48 == 0
    assert 8 * n * n <= 0.25 * memory < 8 * (n + 48) ** 2


@pytest.mark.parametrize(("ranks", "grid"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (7, (1, 7)), (12, (3, 4))])
def test_the_grid_is_as_square_as_the_ranks_allow(tmp_path: Path, ranks: int, grid: tuple[int, int]) -> None:
    lines = lines_for(tmp_path, "n=10", PMI_SIZE=str(ranks))
    assert (int(lines[10].split()[0]), int(lines[11].split()[0])) == grid


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


TOOL = (ROOT / "tools" / "programs").read_text()


def pins(name: str) -> list[str]:
    text = (ROOT / "lock" / f"{name}.txt").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("name", ["imb", "hnn"])
def test_every_line_of_a_lock_has_a_version_a_hash_and_no_address(name: str) -> None:
    assert pins(name)
    for line in pins(name):
        assert re.fullmatch(r"[a-z0-9_-]+==[0-9.]+\s+--hash=sha256:[0-9a-f]{64}", line), line


def test_the_tool_brings_known_versions_to_where_they_are_looked_for() -> None:
    versions = dict(line.split()[0].split("==") for line in pins("hnn"))
    assert versions["hnn-core"] == "0.6.1"
    assert versions["neuron"] == "8.2.7"
    assert "mpi4py" in versions
    folder = re.search(r"^readonly FOLDER=(\S+)", TOOL, re.MULTILINE)
    assert folder
    assert PROGRAMS["IMB-MPI1"].places == (f"{folder[1]}/imb/bin",)
    assert PROGRAMS["hnn"].places == (f"{folder[1]}/hnn/bin",)
    assert f"{folder[1]}/hnn" == PLACE
    assert f"readonly LIBRARIES={mpi_wheels.folder('mpich5')}/lib\n" in TOOL


def test_the_driver_is_there_and_ends_no_process() -> None:
    driver = re.search(r"^readonly DRIVER=(\S+)", TOOL, re.MULTILINE)
    assert driver
    assert (ROOT / driver[1]).is_file()
    assert Path(driver[1]).name == DRIVER
    text = (ROOT / "src/tare/workloads/drivers" / DRIVER).read_text()
    assert not re.search(r"kill|terminate|MPIBackend\(|subprocess|psutil", text)
