"""Hold the kernels against the Intel MPI Benchmarks, an overlay's overhead too, and against themselves.

    python benchmarks/agreement.py [--only NAME]... [--rounds 10] [--markdown FILE] [--values FILE]
    python benchmarks/agreement.py --carry-over [--rounds 12]

Each kernel and IMB's benchmark of the same operation run in launches of their own, at the same time, in turns as in
`tare run` (docs/adr/0017-turns.md): in a turn IMB measures one line of its table and the kernel a share of its
iterations, while the others sleep. They have the same MPI (MPICH 5, whose binary interface IMB-MPI1 has), transport,
cores, message size, iterations and statistic. First over shared memory; then over the wire between two nodes of the lab
and over VXLAN on that wire, these four together. For each round the ratio of the two times is taken, and the overhead
of VXLAN as either side tells it. A launch's time is the median over its turns of their means (of loops, whose turns the
kernel does not tell one by one, the mean on both sides), because one turn that meets another program's work shows that
work. A line is the median over rounds with an interval of order statistics (95 % or more,
no assumption about the distribution). A ratio beyond 5 %, or overheads more than 5 points apart, end with exit code 1.
It needs root, two cores and a quiet machine.

`--carry-over` compares each kernel of the quick start alone in a launch with the same kernel after all those that
`tare run` may put before it (tare.workloads.kernel_order), over Open MPI and the lab's wire.

IMB's buffers come from malloc: below 128 KiB those of sender and receiver lie differently modulo 64, and copying 64 KiB
then takes 8 % longer. So the kernels' do too: skew=16.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import socket
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from agreement_table import HEADER, LIMIT, Row, as_markdown, median_interval, print_table, ratio
from side_by_side import Start, in_turns
from wires import Wires, wires

from tare.images import mpi_wheels
from tare.mpi.launch import PADDING
from tare.system.paths import cache_folder
from tare.system.process import run
from tare.workloads.kernel_order import LARGE_BYTES, in_flight_bytes
from tare.workloads.parts import of_launch
from tare.workloads.programs.imb import PLACE

BUILD_S = 600.0
KERNELS = Path(__file__).resolve().parent.parent / "kernels"
IMB = Path(PLACE) / "bin" / "IMB-MPI1"
IMB_TURNS = Path(__file__).with_name("imb_turns.c")
WINDOW = 64
TURNS = 20
Samples = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A kernel and IMB's benchmark of the same operation: sizes, IMB's column, and how ours is read.

    `reading` is `loop` (rank_loop_s), `mean` (rank_mean_s) or `rate` (rank_mean_s of a window; IMB's is a rate).
    """

    kernel: str
    benchmark: str
    reading: str
    sizes: tuple[int | None, ...]
    column: str = "t_avg[usec]"
    sync: str = ""


PAIRS = (
    Pair(kernel="latency", benchmark="PingPong", reading="mean", sizes=(8, 65536, 1 << 20), column="t[usec]"),
    Pair(kernel="bw", benchmark="Uniband", reading="rate", sizes=(65536,), column="Mbytes/sec"),
    Pair(kernel="bibw", benchmark="Biband", reading="rate", sizes=(65536,), column="Mbytes/sec"),
    Pair(kernel="sendrecv", benchmark="Sendrecv", reading="loop", sizes=(8, 65536), sync="none"),
    Pair(kernel="allreduce", benchmark="Allreduce", reading="mean", sizes=(8, 65536), sync="barrier"),
    Pair(kernel="allgather", benchmark="Allgather", reading="mean", sizes=(8, 65536), sync="barrier"),
    Pair(kernel="alltoall", benchmark="Alltoall", reading="mean", sizes=(8, 65536), sync="barrier"),
    Pair(kernel="alltoallv", benchmark="Alltoallv", reading="mean", sizes=(8, 65536), sync="barrier"),
    Pair(kernel="barrier", benchmark="Barrier", reading="loop", sizes=(None,), sync="none"),
)
ITERATIONS = {"shm": {8: 1000, 65536: 200, 1 << 20: 20}, "tcp": {8: 200, 65536: 50, 1 << 20: 10}}
"""In a turn."""
RATE_ITERATIONS = {"shm": 40, "tcp": 3}
"""Windows in a turn: the first of a loop takes longer, which 10 of shared memory did not dilute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One kernel of one size on one wire: seconds by IMB and by tare, one entry a round."""

    pair: Pair
    size: int | None
    wire: str
    theirs: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        size = "" if self.size is None else f" {size_name(self.size)}"
        return f"{self.pair.kernel}{size}"

    @property
    def iterations(self) -> int:
        """Return how many iterations a turn has."""
        kind = "shm" if self.wire == "shm" else "tcp"
        return RATE_ITERATIONS[kind] if self.pair.reading == "rate" else ITERATIONS[kind][self.size or 8]


def main() -> int:
    parser = argparse.ArgumentParser(description="Hold the kernels against IMB, and against themselves.")
    parser.add_argument("--rounds", type=int, default=10, help="launches of each side a line (default 10, 6 at least)")
    parser.add_argument("--only", action="append", help="a kernel or a wire (shm, tcp, vxlan); may be repeated")
    parser.add_argument("--seed", type=int, default=1, help="of the order of launches")
    parser.add_argument("--markdown", type=Path, help="write the table to this file as well")
    parser.add_argument("--values", type=Path, help="write the times of all launches to this file, as JSON")
    parser.add_argument("--carry-over", action="store_true", help="each kernel alone against after the others")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("agreement: two cores are needed, one for each rank", file=sys.stderr)
        return 2
    if options.rounds < 6:
        parser.error("a 95 % interval of the median needs --rounds of at least 6")
    shuffle = random.Random(options.seed)
    if options.carry_over:
        return carry_over(options.rounds, shuffle)
    lines = agreement(set(options.only or ()), options.rounds, shuffle)
    if options.values:
        values = [{"name": x.name, "wire": x.wire, "imb_s": x.theirs, "tare_s": x.ours} for x in lines]
        options.values.write_text(json.dumps(values) + "\n")
    rows = [ratio_row(line) for line in lines] + overhead_rows(lines)
    print_table(rows)
    if options.markdown:
        options.markdown.write_text(as_markdown(rows))
    return int(any(row.off > LIMIT for row in rows))


# --- against IMB ------------------------------------------------------------------------------------------------------


def agreement(only: set[str], rounds: int, shuffle: random.Random) -> list[Line]:
    """Measure all lines in every round and return them."""
    if reason := mpi_wheels.probe("mpich5"):
        raise SystemExit(f"agreement: {reason}")
    if not IMB.is_file():
        raise SystemExit("agreement: IMB-MPI1 is missing: tools/programs imb")
    named_wires = only & {"shm", "tcp", "vxlan"} or {"shm", "tcp", "vxlan"}
    kernels = only - {"shm", "tcp", "vxlan"}
    if unknown := kernels - {pair.kernel for pair in PAIRS}:
        raise SystemExit(f"agreement: no such kernel or wire: {', '.join(sorted(unknown))}")
    lines = [
        Line(pair=pair, size=size, wire=wire)
        for wire in ("shm", "tcp", "vxlan")
        if wire in named_wires
        for pair in PAIRS
        if not kernels or pair.kernel in kernels
        for size in pair.sizes
    ]
    program = built("mpich5", mpi_wheels.program("mpich5", "mpicc"))
    library = built_for_imb(program.parent)
    between = tuple(wire for wire in ("tcp", "vxlan") if wire in named_wires)
    with wires(between, "mpich5", program.parent) as lab:
        for number in range(rounds):
            print(f"\rround {number + 1} of {rounds} ", end="", file=sys.stderr, flush=True)
            for together in shuffle.sample(compared(lines), len(compared(lines))):
                measure(together, lab, program, library, shuffle)
    print(file=sys.stderr)
    return lines


def compared(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines that are compared directly: a kernel of one size over shared memory, or over both wires."""
    found: dict[tuple[str, bool], list[Line]] = {}
    for line in lines:
        found.setdefault((line.name, line.wire == "shm"), []).append(line)
    return list(found.values())


def measure(lines: Sequence[Line], lab: Wires, program: Path, library: Path, shuffle: random.Random) -> None:
    """Run IMB and our kernel for some lines at the same time, in turns, and note what they say."""
    starts: list[Start] = []
    for line in lines:
        starts.append(partial(launched, line, lab, partial(their_argv, line, library)))
        starts.append(partial(launched, line, lab, partial(our_argv, line, program)))
    order = shuffle.sample(range(len(starts)), len(starts))
    if lines[0].wire == "shm":
        listener = socket.create_server(("127.0.0.1", 0))
    else:
        listener = lab.site.listen() or sys.exit("agreement: no address that all nodes reach")
    said = dict(zip(order, in_turns([starts[i] for i in order], listener, TURNS, shuffle), strict=True))
    for number, line in enumerate(lines):
        line.theirs.append(their_time_s(line, said[2 * number]))
        line.ours.append(our_time_s(line, said[2 * number + 1]))


def built(mpi: str, compiler: str | Path) -> Path:
    """Build this checkout's kernels for an MPI and return the program."""
    folder = cache_folder() / "agreement" / f"{mpi}-{zlib.crc32(bytes(KERNELS)):08x}"
    source = f"-DMPI_C_COMPILER={compiler}"
    run(("cmake", "-S", str(KERNELS), "-B", str(folder), source), timeout_s=BUILD_S, what="configuring the kernels")
    run(("cmake", "--build", str(folder), "--target", "tare-kernels"), timeout_s=BUILD_S, what="building the kernels")
    return folder / "tare-kernels"


def built_for_imb(folder: Path) -> Path:
    """Compile what lets IMB take turns and return the library."""
    made = folder / "imb_turns.so"
    sources = (IMB_TURNS, *(KERNELS / "common" / f"{name}.c" for name in ("turns", "check", "output", "json", "clock")))
    flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{KERNELS}")
    compiler = mpi_wheels.program("mpich5", "mpicc")
    run((str(compiler), *flags, *map(str, sources), "-o", str(made)), timeout_s=BUILD_S, what="building imb_turns.so")
    return made


def launched(line: Line, lab: Wires, argv: Callable[[str], Sequence[str | Path]], turns: str, key: str) -> str:
    """Run a program on two ranks over the line's wire; `argv` makes its command line of where it has its turns."""
    command = ("/usr/bin/env", f"{PADDING}={key}:", *argv(turns))
    if line.wire != "shm":
        return of_launch(lab.run(line.wire, *command), key)
    mpirun = (str(mpi_wheels.program("mpich5", "mpirun")), "-n", "2", "-bind-to", "core")
    variables = {"MPIR_CVAR_CH4_NETMOD": "ucx", "MPIR_CVAR_CH4_CMA_ENABLE": "0", "UCX_TLS": "self,sysv"}
    text = run((*mpirun, *map(str, command)), env={**os.environ, **variables}, timeout_s=120.0, what=line.name).stdout
    return of_launch(text, key)


def their_argv(line: Line, library: Path, turns: str) -> tuple[str | Path, ...]:
    """Return IMB's command line: as many lines of the same size as turns."""
    sizes = () if line.size is None else ("-msgsize", ",".join([str(line.size)] * TURNS))
    benchmarks = [line.pair.benchmark] * (TURNS if line.size is None else 1)
    options = ("-npmin", "2", *sizes, "-iter", str(line.iterations), "-iter_policy", "off", "-time", "60")
    mpi = mpi_wheels.program("mpich5", "mpirun").parent.parent / "lib"
    variables = (f"LD_LIBRARY_PATH={mpi}", f"LD_PRELOAD={library}", f"IMB_TURNS={turns}")
    return ("/usr/bin/env", *variables, IMB, *options, *benchmarks)


def our_argv(line: Line, program: Path, turns: str) -> tuple[str | Path, ...]:
    """Return our command line; as in IMB, as many iterations are discarded before a loop as it has."""
    iterations = line.iterations * TURNS
    given = {"iterations": iterations, "warmup": iterations}
    if line.size is not None:
        given |= {"bytes": line.size, "skew": 16 if line.size < 128 * 1024 else 0}
    spec = f"{line.pair.kernel}:" + ",".join(f"{key}={value}" for key, value in given.items())
    return (program, f"--turns={turns}", spec + (f",sync={line.pair.sync}" if line.pair.sync else ""))


def their_time_s(line: Line, text: str) -> float:
    """Return what IMB says in seconds, of all turns; a rate becomes the time of a window."""
    values = table_values(text, line)
    if line.pair.reading == "rate":
        return median(in_window(line) / (value * 1e6) for value in values)
    return (fmean if line.pair.reading == "loop" else median)(values) * 1e-6


def table_values(text: str, line: Line) -> list[float]:
    """Return the line's column of IMB's table, one entry a turn."""
    rows = [row.split() for row in text.splitlines()]
    header = next((row for row in rows if "#repetitions" in row), [])
    first = [str(line.iterations)] if line.size is None else [str(line.size), str(line.iterations)]
    found = [row for row in rows if row[: len(first)] == first and len(row) == len(header)]
    if len(found) != TURNS or line.pair.column not in header:
        raise SystemExit(f"agreement: not {TURNS} rows of {line.iterations} repetitions in:\n{text}")
    return [float(row[header.index(line.pair.column)]) for row in found]


def in_window(line: Line) -> int:
    """Return the bytes of a window, both directions of bibw counted."""
    return WINDOW * (line.size or 0) * (2 if line.pair.kernel == "bibw" else 1)


def our_time_s(line: Line, text: str) -> float:
    """Return what our kernel says of all turns, in IMB's reading; loops are known in their sum alone."""
    (kernel,) = kernels_of(text)
    if line.pair.reading == "loop":
        return fmean(kernel["rank_loop_s"])
    name = "mean_s" if "mean_s" in kernel["columns"] else "max_s"  # kernels of a pair are timed by one rank
    return float(np.median(column(kernel, name).reshape(TURNS, -1).mean(axis=1)))


def kernels_of(text: str) -> list[dict[str, Any]]:
    """Return the kernels' records of a launch, after checking their data and the ranks' cores."""
    records = [json.loads(row[6:]) for row in text.splitlines() if row.startswith("@tare ")]
    masks = [set(record["cpus"].split(",")) for record in records if record["type"] == "rank"]
    found = [record for record in records if record["type"] == "kernel"]
    if not all(record["verified"] for record in found):
        raise SystemExit("agreement: a kernel received wrong data")
    if len(masks) != 2 or masks[0] & masks[1]:
        raise SystemExit(f"agreement: ranks are not on cores of their own: {masks}")
    return found


# --- against themselves -----------------------------------------------------------------------------------------------

QUICK_START = (
    "latency:bytes=8,iterations=1500,warmup=100",
    "latency:bytes=65536,iterations=300,warmup=20",
    "bw:bytes=1048576,window=8,iterations=20,warmup=2",
    "barrier:iterations=1000,warmup=100",
    "alltoallv:bytes=65536,iterations=300,warmup=20",
)


def carry_over(rounds: int, shuffle: random.Random) -> int:
    """Print each kernel of the quick start after the others against alone; return the exit code."""
    program = built("openmpi", "mpicc.openmpi")
    alone: dict[str, list[float]] = {spec: [] for spec in QUICK_START}
    after: dict[str, list[float]] = {spec: [] for spec in QUICK_START}
    with wires(("tcp",), "openmpi", program.parent) as lab:
        for number in range(rounds):
            print(f"\rround {number + 1} of {rounds} ", end="", file=sys.stderr, flush=True)
            launches = [(spec, kind) for spec in QUICK_START for kind in (alone, after)]
            for spec, kind in shuffle.sample(launches, len(launches)):
                before = may_come_before(spec) if kind is after else []
                text = lab.run("tcp", program, *shuffle.sample(before, len(before)), spec)
                kind[spec].append(typical_s(kernels_of(text)[-1]))
    print(file=sys.stderr)
    rows = [ratio(name_of(spec), "after / alone", alone[spec], after[spec]) for spec in QUICK_START]
    print_table(rows, ("kernel", "", "alone", "after", *HEADER[4:]))
    return int(any(row.off > LIMIT for row in rows))


def may_come_before(spec: str) -> list[str]:
    """Return all kernels that `tare run` may run before one: for a small one, the other small ones."""
    small = in_flight_bytes(spec) <= LARGE_BYTES
    return [other for other in QUICK_START if other != spec and not (small and in_flight_bytes(other) > LARGE_BYTES)]


def typical_s(kernel: dict[str, Any]) -> float:
    """Return the median over iterations of the maximum over ranks."""
    return float(np.median(column(kernel, "max_s")))


def column(kernel: dict[str, Any], name: str) -> Samples:
    """Return a column of a kernel's samples, one entry an iteration."""
    return np.frombuffer(base64.b64decode(kernel["data"][kernel["columns"].index(name)]), dtype="<f8")


def name_of(spec: str) -> str:
    name, _, rest = spec.partition(":")
    size = next((int(part[6:]) for part in rest.split(",") if part.startswith("bytes=")), None)
    return name if size is None else f"{name} {size_name(size)}"


# --- the table --------------------------------------------------------------------------------------------------------


def ratio_row(line: Line) -> Row:
    return ratio(line.name, line.wire, line.theirs, line.ours)


def overhead_rows(lines: Sequence[Line]) -> list[Row]:
    """Return by how many points our overhead of VXLAN differs from IMB's, for each kernel measured on both wires."""
    plain = {line.name: line for line in lines if line.wire == "tcp"}
    rows = []
    for over in (line for line in lines if line.wire == "vxlan" and line.name in plain):
        base = plain[over.name]
        theirs = [100 * (b / a - 1) for a, b in zip(base.theirs, over.theirs, strict=True)]
        ours = [100 * (b / a - 1) for a, b in zip(base.ours, over.ours, strict=True)]
        value, low, high = median_interval([b - a for a, b in zip(theirs, ours, strict=True)])
        rows.append(
            Row(
                name=over.name,
                what="vxlan / tcp",
                theirs=f"{median(theirs):+.1f} %",
                ours=f"{median(ours):+.1f} %",
                value=value,
                low=low,
                high=high,
                n=len(ours),
                unit="points",
            )
        )
    return rows


def size_name(size: int) -> str:
    return {8: "8 B", 65536: "64 KiB", 1 << 20: "1 MiB"}[size]


if __name__ == "__main__":
    sys.exit(main())
