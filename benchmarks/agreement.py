"""Hold the kernels against programs of others: mpi4py's ping-pong and the Intel MPI Benchmarks.

Both sides use the same MPI library, transport, cores, message size, number of iterations and statistic: the mean over
iterations, averaged over the ranks that are timed. A run is some launches of each side, alternating, in random order
inside a pair; its figure, on both sides alike, is the median of them, because one launch that meets a burst of
another program's work shows that burst and not the MPI. The verdict is taken over runs: the geometric mean of the
ratios with its 95 % interval (paired t on logarithms). Exit code 1 if a ratio is beyond 5 %. Run it on a quiet machine
with two idle cores; ten runs take some ten minutes:

    python benchmarks/agreement.py [--runs 10] [--launches 7]

- mpi4py's own ping-pong (python -m mpi4py.bench) runs over Debian's Open MPI and TCP: over shared memory 64 KiB take
  some 5 us, of which the interpreter's own work on a call is more than the 5 % that are to be shown.
- IMB-MPI1 (PyPI: impi-rt) is linked with libmpi.so.12, the ABI that MPICH shares: LD_LIBRARY_PATH makes it run on
  PyPI's mpich, with which the kernels are built too. The transport is MPICH's default in one host (UCX, shared memory).
  IMB times a collective alone and puts an untimed barrier after each iteration: sync=barrier here. Its buffers come
  from malloc: below 128 KiB those of sender and receiver lie differently modulo 64, and copying 64 KiB then takes 8 %
  longer (seen by giving IMB aligned buffers through a PMPI shim). So the kernels' do too: skew=16.

All that is needed is put under ${XDG_CACHE_HOME:-~/.cache}/tare/agreement, by pip and cmake.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from tare import stats

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent / "kernels"
LIMIT = 0.05
LAUNCH_TIMEOUT_S = 120

PACKAGES: dict[str, tuple[str, ...]] = {
    "mpi4py": ("mpi4py==4.1.2",),
    "mpich": ("mpich==5.0.2",),
    "imb": ("--no-deps", "impi-rt==2021.19.0"),
}

# Enough iterations that one launch measures for some tenths of a second.
ITERATIONS = {8: 50000, 65536: 10000, 1048576: 2000}
WARMUP = 100


@dataclass(frozen=True)
class Tools:
    """Where the programs of both sides are."""

    mpi4py_python: Path
    mpich: Path
    imb: Path
    kernels_openmpi: Path
    kernels_mpich: Path


@dataclass(frozen=True)
class Line:
    """One comparison: two functions that launch once and return seconds."""

    name: str
    reference: Callable[[], float]
    ours: Callable[[], float]
    runs: list[tuple[float, float]] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description="Hold the kernels against mpi4py and IMB.")
    parser.add_argument("--runs", type=int, default=10, help="runs a line (default 10)")
    parser.add_argument("--launches", type=int, default=7, help="of each side in a run (default 7)")
    parser.add_argument("--seed", type=int, default=1, help="of the order inside pairs")
    parser.add_argument("--only", choices=["mpi4py", "imb"], help="one of the two references")
    arguments = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("agreement: two cores are needed, one for each rank", file=sys.stderr)
        return 2
    if arguments.runs < 2 or arguments.launches < 1:
        parser.error("an interval needs --runs of at least 2, a run --launches of at least 1")
    tools = set_up()
    lines = [
        *(mpi4py_lines(tools) if arguments.only != "imb" else []),
        *(imb_lines(tools) if arguments.only != "mpi4py" else []),
    ]
    shuffle = random.Random(arguments.seed)
    for run in range(arguments.runs):
        print(f"\rrun {run + 1} of {arguments.runs} ", end="", file=sys.stderr, flush=True)
        for line in lines:
            line.runs.append(measure_run(line, arguments.launches, shuffle))
    print(file=sys.stderr)
    return report(lines)


# --- programs ---------------------------------------------------------------------------------------------------------


def set_up() -> Tools:
    """Make the virtual environments and build the kernels, where that has not been done."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tare" / "agreement"
    homes = {name: install(cache, name, packages) for name, packages in PACKAGES.items()}
    return Tools(
        mpi4py_python=homes["mpi4py"] / "bin" / "python",
        mpich=homes["mpich"],
        imb=homes["imb"] / "bin" / "IMB-MPI1",
        kernels_openmpi=build(cache / "kernels-openmpi", "mpicc.openmpi"),
        kernels_mpich=build(cache / "kernels-mpich", str(homes["mpich"] / "bin" / "mpicc")),
    )


def install(cache: Path, name: str, packages: tuple[str, ...]) -> Path:
    """Make one environment a package: impi-rt and mpich both bring bin/mpiexec and lib/libmpi.so.12."""
    home = cache / name
    done = home / "installed"
    if done.exists() and done.read_text() == " ".join(packages):
        return home
    print(f"installing {packages[-1]}", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    run_tool(sys.executable, "-m", "venv", home)
    run_tool(home / "bin" / "python", "-m", "pip", "--quiet", "install", *packages)
    done.write_text(" ".join(packages))
    return home


def build(folder: Path, compiler: str) -> Path:
    configured = folder / "CMakeCache.txt"
    if configured.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={KERNELS}\n" not in configured.read_text():
        shutil.rmtree(folder)  # another checkout's
    run_tool("cmake", "-S", KERNELS, "-B", folder, f"-DMPI_C_COMPILER={compiler}")
    run_tool("cmake", "--build", folder, "--parallel", "2")
    return folder / "tare-kernels"


def run_tool(*argv: str | Path, env: Mapping[str, str] | None = None) -> str:
    """Run a program that must succeed; on time-out its launcher gets SIGTERM, which ends the ranks too."""
    full = {**os.environ, **(env or {})}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=full) as process:
        try:
            stdout, stderr = process.communicate(timeout=None if env is None else LAUNCH_TIMEOUT_S)
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        command = " ".join(str(token) for token in argv)
        raise SystemExit(f"agreement: exit code {process.returncode} of: {command}\n{stdout}{stderr}")
    return stdout


# --- mpi4py over Open MPI and TCP -------------------------------------------------------------------------------------


def mpi4py_lines(tools: Tools) -> list[Line]:
    mpirun = (
        *("mpirun.openmpi", "--allow-run-as-root", "-n", "2", "--map-by", "core", "--bind-to", "core"),
        *("--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"),
    )
    # PyPI's mpi4py serves several MPIs and must be told which; and it asks for MPI_THREAD_MULTIPLE, whose locks the
    # kernels do not take: both sides are to run at the level of MPI_Init.
    env = {"MPI4PY_MPIABI": "openmpi", "MPI4PY_LIBMPI": "libmpi.so.40", "MPI4PY_RC_THREAD_LEVEL": "single"}

    def line(message_bytes: int) -> Line:
        iterations = ITERATIONS[message_bytes]

        def reference() -> float:
            sizes = ("-m", str(message_bytes), "-n", str(message_bytes))
            loops = [token for size in ("", "-large", "-huge") for token in (f"--loop{size}", str(iterations))]
            skips = [token for size in ("", "-large", "-huge") for token in (f"--skip{size}", str(WARMUP))]
            bench = ("-m", "mpi4py.bench", "pingpong", "--array", "none", *sizes, *loops, *skips)
            return mpi4py_mean_s(run_tool(*mpirun, tools.mpi4py_python, *bench, env=env), message_bytes, iterations)

        def ours() -> float:
            return kernel_mean_s((*mpirun, tools.kernels_openmpi), "latency", message_bytes, 0, env)

        return Line(f"mpi4py ping-pong, {size_name(message_bytes)}, tcp", reference, ours)

    return [line(message_bytes) for message_bytes in (65536, 1048576)]


def mpi4py_mean_s(text: str, message_bytes: int, iterations: int) -> float:
    """Return the mean of the one row `bytes bandwidth | mean +- deviation samples`."""
    rows = [row.split() for row in text.splitlines() if row.split()[:1] == [str(message_bytes)]]
    if len(rows) != 1 or rows[0][2] != "|" or rows[0][-1] != str(iterations):
        raise SystemExit(f"agreement: no row of {iterations} samples of {message_bytes} bytes in:\n{text}")
    return float(rows[0][3])


# --- IMB over MPICH and shared memory ---------------------------------------------------------------------------------


def imb_lines(tools: Tools) -> list[Line]:
    mpirun = (tools.mpich / "bin" / "mpirun", "-n", "2", "-bind-to", "core")
    env = {"LD_LIBRARY_PATH": str(tools.mpich / "lib")}

    def line(benchmark: str, kernel: str, message_bytes: int) -> Line:
        def reference() -> float:
            iterations = str(ITERATIONS[message_bytes])
            options = ("-npmin", "2", "-msgsize", str(message_bytes), "-iter", iterations, "-iter_policy", "off")
            text = run_tool(*mpirun, tools.imb, *options, "-time", "60", benchmark, env=env)
            return imb_mean_s(text, benchmark, message_bytes, ITERATIONS[message_bytes])

        def ours() -> float:
            return kernel_mean_s((*mpirun, tools.kernels_mpich), kernel, message_bytes, malloc_skew(message_bytes), env)

        return Line(f"IMB {benchmark}, {size_name(message_bytes)}, shm", reference, ours)

    pairs = (("PingPong", "latency"), ("Alltoallv", "alltoallv"))
    return [line(benchmark, kernel, size) for benchmark, kernel in pairs for size in ITERATIONS]


def malloc_skew(message_bytes: int) -> int:
    """Return how malloc's blocks lie: 16 bytes apart modulo 64, or all alike where it maps pages."""
    return 16 if message_bytes < 128 * 1024 else 0


def imb_mean_s(text: str, benchmark: str, message_bytes: int, iterations: int) -> float:
    """Return t (PingPong) or t_avg (collectives) of the one row of IMB's table."""
    column = {"PingPong": 2, "Alltoallv": 4}[benchmark]
    rows = [row.split() for row in text.splitlines() if row.split()[:2] == [str(message_bytes), str(iterations)]]
    if len(rows) != 1:
        raise SystemExit(f"agreement: no row of {iterations} repetitions of {message_bytes} bytes in:\n{text}")
    return float(rows[0][column]) * 1e-6


# --- both sides -------------------------------------------------------------------------------------------------------


def kernel_mean_s(
    launch: tuple[str | Path, ...], kernel: str, message_bytes: int, skew: int, env: Mapping[str, str]
) -> float:
    """Launch one kernel and return its mean over iterations and timed ranks, after checking data and cores."""
    spec = f"{kernel}:bytes={message_bytes},skew={skew},iterations={ITERATIONS[message_bytes]},warmup={WARMUP}"
    text = run_tool(*launch, "--no-samples", spec, env=env)
    objects = [json.loads(row[6:]) for row in text.splitlines() if row.startswith("@tare ")]
    (result,) = (item for item in objects if item["type"] == "kernel")
    masks = [item["cpus"] for item in objects if item["type"] == "rank"]
    if not result["verified"]:
        raise SystemExit(f"agreement: {spec} received wrong data")
    if cores(masks[0]) & cores(masks[1]):
        raise SystemExit(f"agreement: ranks are not pinned to different cores: {masks}")
    return fmean(result["rank_mean_s"])


def cores(mask: str) -> set[int]:
    """Return the cores of a Linux list such as 0-3,8."""
    spans = (part.partition("-") for part in mask.split(","))
    return {core for first, _, last in spans for core in range(int(first), int(last or first) + 1)}


def measure_run(line: Line, launches: int, shuffle: random.Random) -> tuple[float, float]:
    """Return the median launch of each side: theirs, ours."""
    pairs = [measure_pair(line, ours_first=shuffle.random() < 0.5) for _ in range(launches)]
    return median(theirs for theirs, _ in pairs), median(ours for _, ours in pairs)


def measure_pair(line: Line, *, ours_first: bool) -> tuple[float, float]:
    if ours_first:
        ours = line.ours()
        return line.reference(), ours
    reference = line.reference()
    return reference, line.ours()


def size_name(message_bytes: int) -> str:
    return {8: "8 B", 65536: "64 KiB", 1048576: "1 MiB"}[message_bytes]


def report(lines: list[Line]) -> int:
    """Print the table; return 1 if a ratio is beyond the limit."""
    print(f"{'':34}{'theirs us':>10}{'tare us':>10}  {'ratio':>6}  95 % interval   {'verdict'}")
    code = 0
    for line in lines:
        theirs, ours = zip(*line.runs, strict=True)
        overhead = stats.paired_t(stats.log_ratios(ours, theirs), confidence=0.95)
        assert overhead is not None  # there are two runs at least
        ratio, low, high = 1 + overhead.value, 1 + overhead.low, 1 + overhead.high
        theirs_us, ours_us = 1e6 * geometric_mean(theirs), 1e6 * geometric_mean(ours)
        verdict = judge(ratio, low, high)
        code = max(code, int(verdict == "BEYOND"))
        print(f"{line.name:34}{theirs_us:10.2f}{ours_us:10.2f}  {ratio:6.3f}  [{low:.3f}, {high:.3f}]  {verdict}")
    print(f"{len(lines[0].runs)} runs a line; geometric means; within means a ratio inside 1 +- {LIMIT}")
    return code


def geometric_mean(values: tuple[float, ...]) -> float:
    return math.exp(fmean(math.log(value) for value in values))


def judge(ratio: float, low: float, high: float) -> str:
    if abs(ratio - 1) > LIMIT:
        return "BEYOND"
    inside = low >= 1 - LIMIT and high <= 1 + LIMIT
    return "within" if inside else "within (interval is not: more runs)"


if __name__ == "__main__":
    sys.exit(main())
