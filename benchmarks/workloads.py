"""Print how fast the mini-applications are, beside the official programs on a machine of the same kind.

Each is run on the host, bound to cores, for so many rounds, one application after the other in each round. The figures
of the official programs are WORKLOADS.md's: -O3 -march=native, Open MPI 4.1.4, on two cores of an AMD EPYC (Zen 5). On
another CPU they say nothing before they are scaled: hpcc's STREAM and DGEMM are measured in the same run for that. Run
it on a quiet machine:

    python benchmarks/workloads.py [--rounds 3] [--only npb-cg,hpcg]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tare.images.kernels import ensure_kernels
from tare.system import process
from tare.workloads.output import records
from tare.workloads.programs import PROGRAMS

LIMIT_S = 300.0

SIZES = ("n=707", "nb=128")
"""On two ranks as much a rank for STREAM and DGEMM as on the four of the sample that scales are taken from."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is run on how many ranks, and the rate of the official program in the application's own unit."""

    spec: str
    ranks: int
    official: float

    @property
    def name(self) -> str:
        return self.spec.partition(":")[0]


CASES = (
    Case(spec="npb-ep:class=A", ranks=2, official=400),
    Case(spec="npb-is:class=A", ranks=2, official=932),
    Case(spec="npb-cg:class=A", ranks=2, official=8662),
    Case(spec="npb-mg:class=A", ranks=2, official=13315),
    Case(spec="npb-ft:class=A", ranks=2, official=9674),
    Case(spec="npb-lu:class=A", ranks=2, official=16782),
    Case(spec="npb-bt:class=A", ranks=1, official=7406),
    Case(spec="npb-sp:class=A", ranks=1, official=5430),
    Case(spec="hpcg:nx=32,ny=32,nz=32,seconds=5", ranks=2, official=9.0),
    Case(spec="hpcg:nx=64,ny=64,nz=64,seconds=5", ranks=2, official=5.3),
    Case(spec="minife:nx=64,ny=64,nz=64", ranks=2, official=8479),
    Case(spec="graph500:scale=16", ranks=2, official=67e6),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Time the mini-applications.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="names, with commas between them")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON, too")
    arguments = parser.parse_args()
    wanted = set(filter(None, arguments.only.split(",")))
    cases = [case for case in CASES if not wanted or case.name in wanted]
    program = ensure_kernels("openmpi").prefix / "bin" / "tare-miniapps"
    rates: dict[str, list[float]] = {case.spec: [] for case in cases}
    units: dict[str, str] = {}
    for _ in range(arguments.rounds):
        for case in cases:
            rate, units[case.spec] = run(program, case)
            rates[case.spec].append(rate)
    table(cases, rates, units)
    for line in machine():
        print(line)
    if arguments.json:
        print(json.dumps(rates))
    return int(any(median(rates[case.spec]) < case.official for case in cases))


def run(program: Path, case: Case) -> tuple[float, str]:
    """Return the rate of one launch and its unit."""
    argv = (
        "mpirun.openmpi", "--allow-run-as-root", "--bind-to", "core", "-n", str(case.ranks), str(program), case.spec,
    )  # fmt: skip
    done = process.run(argv, timeout_s=LIMIT_S, check=False)
    if done.status != 0:
        print(f"workloads: {case.spec} ended with status {done.status}: {done.stderr_tail}", file=sys.stderr)
        raise SystemExit(4)
    (record,) = [record for record in records(done.stdout) if record["type"] == "miniapp"]
    return float(record["rate"]), str(record["rate_unit"])


def table(cases: list[Case], rates: dict[str, list[float]], units: dict[str, str]) -> None:
    """Print the medians, their ranges, and how they stand to the official programs."""
    print(f"{'application':36} {'ranks':>5} {'median':>12} {'range':>27} {'official':>12} {'ratio':>6}")
    for case in cases:
        own = rates[case.spec]
        spread = f"[{min(own):,.4g}, {max(own):,.4g}]"
        middle, unit = median(own), units[case.spec]
        print(
            f"{case.spec:36} {case.ranks:5} {middle:12,.4g} {spread:>27} {case.official:12,.4g} "
            f"{middle / case.official:6.2f}  {unit}"
        )


def machine() -> list[str]:
    """Return what hpcc measures of the machine itself."""
    adapter = PROGRAMS["hpcc"]
    if process.find("hpcc") is None:
        return ["hpcc is not installed: STREAM and DGEMM were not measured"]
    own = ensure_kernels("openmpi").prefix / "bin"
    first, *rest = adapter.argv(SIZES)
    launcher = ("mpirun.openmpi", "--allow-run-as-root", "--bind-to", "core", "-n", "2")
    done = process.run((*launcher, str(own / first), *rest), timeout_s=LIMIT_S)
    reading = adapter.read(done.stdout, SIZES)
    return [
        f"hpcc {metric.label}: {metric.done_per_sample / metric.value:,.4g} {metric.rate_unit}"
        for metric in reading.metrics
    ]


if __name__ == "__main__":
    sys.exit(main())
