"""How programs of others are called, which ranks and arguments they take, and where they are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.model import Placement
from tare.workloads.programs import PROGRAMS, hpl
from tare.workloads.programs.hpl import operations as hpl_operations
from tare.workloads.programs.locate import found, missing
from tare.workloads.programs.npb import operations
from unit.workloads.programs.known import OUTPUTS, Output


def placed(ranks: int) -> Placement:
    return Placement(nodes=1, ranks_per_node=ranks)


# --- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.file)
def test_what_was_run_is_not_refused_and_has_an_expected_time(output: Output) -> None:
    adapter, placement = output.adapter, placed(output.ranks)
    assert adapter.refuse(output.arguments, placement) is None
    assert 0 < adapter.expected_s(output.arguments, placement) < 3600


def test_a_share_of_the_memory_takes_as_long_as_the_matrix_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpl, "machine_memory", lambda: 24 << 30)
    of_order, of_share = (
        PROGRAMS["hpl"].expected_s((each,), placed(2)) for each in ("n=2538", "memory=0.002")
    )  # fmt: skip
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
        ("hnn", ("tstop=21",), 2, "no known result to check against (allowed: tstop=170 mesh=10"),
        ("hnn", ("tstop=soon",), 2, "tstop=soon is not valid: use a whole number"),
    ],
)
def test_what_cannot_run_is_refused_with_what_can(
    program: str, arguments: tuple[str, ...], ranks: int, told: str
) -> None:
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


# --- calls --------------------------------------------------------------------------------------------------------


def test_arguments_of_a_program_are_passed_on_as_they_are() -> None:
    assert PROGRAMS["osu_latency"].argv(("-m", "8:8"))[-3:] == ("osu_latency", "-m", "8:8")
    assert PROGRAMS["IMB-MPI1"].argv(("-npmin", "2", "PingPong"))[-4:] == ("IMB-MPI1", "-npmin", "2", "PingPong")
    assert PROGRAMS["IMB-MPI1"].argv(("PingPong",))[-4:] == ("IMB-MPI1", "-npmin", "1000000", "PingPong")
    assert PROGRAMS["npb"].argv(("cg.A.x",))[-1] == "cg.A.x"


def test_a_path_of_the_study_is_looked_at_and_nothing_else() -> None:
    argv = PROGRAMS["osu_latency"].argv((), "/opt/osu")
    assert argv == ("tare-run", "-p", "/opt/osu", "osu_latency")
    assert PROGRAMS["iperf3"].argv((), "/opt/iperf")[2] == "/opt/iperf/iperf3"
    assert PROGRAMS["iperf3"].argv((), "/opt/iperf/iperf3")[2] == "/opt/iperf/iperf3"
    assert PROGRAMS["hnn"].argv((), "/opt/hnn")[:2] == ("/opt/hnn/bin/hnn-python", "/opt/hnn/jones2009.py")


def test_programs_that_write_files_get_a_folder_and_their_results_are_printed() -> None:
    argv = PROGRAMS["hpcc"].argv(("memory=0.25", "nb=64,128"))
    assert argv[0] == "tare-run"
    assert argv[3:] == ("-f", "-l", "hpccinf.txt", "-n", "memory=0.25", "-b", "64,128", "-o", "hpccoutf.txt", "hpcc")
    assert PROGRAMS["hpcg"].argv(("rt=0",))[3:] == (
        "-f", "-o", "HPCG-Benchmark*.txt", "xhpcg", "--nx=32", "--ny=32", "--nz=32", "--rt=0",
    )  # fmt: skip


def test_iperf3_has_its_two_sides_started_by_our_own_program() -> None:
    assert PROGRAMS["iperf3"].argv(("-u", "-b", "0")) == (
        "tare-pair", "+server", "iperf3", "-s", "-1", "-p", "{port}",
        "+client", "iperf3", "-c", "{address}", "-p", "{port}", "-J", "-u", "-b", "0",
    )  # fmt: skip


# --- where they are -----------------------------------------------------------------------------------------------


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_program_is_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing(PROGRAMS["hpcc"]) == "hpcc is not here: apt-get install hpcc"
    program = made(tmp_path / "hpcc")
    assert found(PROGRAMS["hpcc"]) == program
    assert missing(PROGRAMS["hpcc"]) is None


@pytest.mark.parametrize("inside", ["", "bin", "libexec/osu-micro-benchmarks/mpi/pt2pt", "mpi/collective", "osu"])
def test_a_program_is_found_below_a_folder_of_the_study(tmp_path: Path, inside: str) -> None:
    program = made(tmp_path / inside / "osu_latency")
    assert found(PROGRAMS["osu_latency"], (), str(tmp_path)) == program
    assert found(PROGRAMS["osu_latency"], (), str(program)) == program


def test_a_folder_without_the_program_is_told(tmp_path: Path) -> None:
    made(tmp_path / "bt.A.4").chmod(0o644)
    assert missing(PROGRAMS["npb"], ("bt.A.4",), str(tmp_path)) == (
        f"bt.A.4 is neither {tmp_path} nor in a folder below it here: correct path: in the study"
    )


def test_a_program_of_an_image_is_found_by_the_links_of_the_image(tmp_path: Path) -> None:
    program = made(tmp_path / "opt/hpcc/hpcc")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/hpcc").symlink_to("/opt/hpcc/hpcc")
    assert found(PROGRAMS["hpcc"], root=tmp_path) == Path("/usr/bin/hpcc")
    assert found(PROGRAMS["hpcc"], (), "/opt/hpcc", tmp_path) == Path("/opt/hpcc/hpcc")
    program.unlink()
    assert missing(PROGRAMS["hpcc"], root=tmp_path) == "hpcc is not in the image: apt-get install hpcc"
