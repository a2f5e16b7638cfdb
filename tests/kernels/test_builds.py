"""The same sources under other compilers, another MPI and the sanitizers."""

from __future__ import annotations

import re
import subprocess

import pytest

from kernels.builds import SOURCE, check
from kernels.launching import SANITIZERS
from kernels.test_protocol import SPECS

pytestmark = [pytest.mark.integration, pytest.mark.requires("cmake")]

# MPI libraries keep memory until the end, and some of it in modules that they have closed by then: so the
# report is read for memory that we asked for (frame 1 is ours) instead of trusting its verdict.
LEAK_REPORT = {
    "ASAN_OPTIONS": "detect_leaks=1:fast_unwind_on_malloc=0",
    "LSAN_OPTIONS": "exitcode=0",
}
ASKED_BY_US = re.compile(r"^ +#1 .*\b(?:(?:common|kernels|wall)/\w+|main)\.c:\d+", re.MULTILINE)


def expect_all_verified(run):
    assert run.code == 0, run.stderr
    assert len(run.of_type("kernel")) == len(SPECS)
    assert all(line["verified"] for line in run.of_type("kernel"))


def needing(mpi, *values):
    return pytest.param(mpi, *values, marks=pytest.mark.requires(mpi))


@pytest.mark.parametrize(
    ("mpi", "library"),
    [
        needing("mpich", "MPICH Version: 4."),
        needing("openmpi5", "Open MPI v5."),
        needing("mpich5", "MPICH Version: 5."),
    ],
)
def test_every_kernel_runs_and_bad_arguments_are_refused_under_every_mpi(launch, mpi, library):
    run = launch(*SPECS, variant=mpi)
    expect_all_verified(run)
    assert " ".join(run.lines[0]["mpi_library"].split()).startswith(library)
    run = launch("latncy", variant=mpi)
    assert run.code == 2
    assert len(run.complaints) == 1


@pytest.mark.parametrize(
    ("variant", "ranks"),
    [pytest.param("clang", 2, marks=pytest.mark.requires("clang")), ("sanitized", 3)],  # of three, one sleeps
)
@pytest.mark.requires("openmpi")
def test_clang_and_the_sanitizers_find_nothing(launch, variant, ranks):
    expect_all_verified(launch(*SPECS, ranks=ranks, variant=f"openmpi-{variant}", env=SANITIZERS))


@pytest.mark.requires("mpich")
@pytest.mark.parametrize("arguments", [SPECS, ("latency:iterations=3", "latncy")], ids=["all kernels", "bad argument"])
def test_no_memory_of_ours_is_lost(launch, arguments):
    run = launch(*arguments, variant="mpich-sanitized", env=LEAK_REPORT)
    assert run.code == (2 if "latncy" in arguments else 0), run.stderr
    assert "runtime error" not in run.stderr
    assert ASKED_BY_US.findall(run.stderr) == []


@pytest.mark.requires("openmpi")
def test_installing_puts_programs_in_bin_the_library_in_lib_and_small_files_in_share(build, tmp_path):
    check("cmake", "--install", build("openmpi"), "--prefix", tmp_path)
    installed = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    modules = [path for path in installed if path.startswith("share/tare/modules/package")]
    assert len(modules) == 1000
    assert [path for path in installed if path not in modules] == [
        "bin/tare-cores",
        "bin/tare-kernels",
        "bin/tare-pair",
        "bin/tare-run",
        "bin/tare-startup",
        "lib/libtare_wall.so",
        "lib/libtare_wall_report.so",
        "share/tare/modules/content",
    ]
    subprocess.run([tmp_path / "bin" / "tare-kernels", "--list"], check=True, capture_output=True)


@pytest.mark.requires("openmpi")
def test_the_library_shows_nothing_but_the_wrapped_names_and_needs_no_mpi(build):
    library = build("openmpi") / "libtare_wall.so"
    symbols = check("nm", "--dynamic", "--defined-only", library).split()[2::3]
    assert {name.removeprefix("P") for name in symbols} == {
        "MPI_Init", "MPI_Init_thread", "MPI_Finalize", "pthread_create",
    }  # fmt: skip
    assert len(symbols) == 7
    assert "libmpi" not in check("readelf", "--dynamic", library)


@pytest.mark.requires("openmpi")
def test_nothing_of_the_builder_is_in_the_program(build):
    program = (build("openmpi") / "tare-kernels").read_bytes()
    assert b"common/locality.c\0" in program
    assert f"{SOURCE}/common".encode() not in program
