"""Run programs that do other work in a container, and programs that do the same: `python -m plants.works` (root).

The first have to be `not comparable`, the others compared. Results go to results/works/NAME and are kept: what is
there is not measured again. Prints a line for each program that came out wrong, and how many of how many came out
right; exits 1 if any did not.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import yaml

from integration.live import APPS
from integration.places import comparisons
from kernels.builds import compile_to
from plants.check import REPOSITORY, compiled_with
from tare import study
from tare.cli import commands
from tare.model import Comparison, Verdict

FOLDER: Final = REPOSITORY / "results" / "works"
ASIDE: Final = Path("/opt/tare-test-works")
"""A folder that nodes see and containers do not."""
OTHER: Final = (
    "checkpoints", "third-checkpoint", "fewer-threads", "more-threads", "no-threads", "other-library", "no-input",
    "default-steps", "nothing-to-do", "no-result", "half-result", "fewer-messages", "before-mpi", "dropped-preload",
)  # fmt: skip
SAME: Final = (
    "usual", "idle", "talks", "temporary", "here", "shared-memory", "reads", "system-files", "maps", "environment",
    "threads", "pool", "random-steps", "random-files", "random-lines", "iterates", "small-messages", "large-messages",
    "reduces", "broadcasts", "gathers", "writes-together", "waits", "looks-up", "touches", "maps-file", "asks-shell",
    "much-output", "for-a-time", "small-files", "synced", "pipes", "library", "log-of-hosts", "complains", "preload",
    "renames", "appends", "without-waiting", "splits", "sleeps", "in-fortran", "by-script", "with a blank",
)  # fmt: skip
WITHOUT_WAYS: Final = ("in-fortran", "by-script", "with a blank")
PRELOADED: Final = {"preload": FOLDER / "made" / "libextra.so", "dropped-preload": ASIDE / "libextra.so"}
"""The programs that have a study of their own, as their variables differ, and the library that is preloaded."""
ROUNDS: Final = 2


def main() -> int:
    """Run all programs with each runtime that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", default="apptainer")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    wrong, counts = [], {True: 0, False: 0}
    try:
        prepare()
        outcomes = dict(measured(asked.runtime, asked.rounds))
    finally:
        rmtree(ASIDE, ignore_errors=True)
    for name, found in outcomes.items():
        is_other = name in OTHER
        wanted = Verdict.NOT_COMPARABLE if is_other else Verdict.INCONCLUSIVE  # there are too few rounds for more
        if found.verdict is wanted and (is_other or len(found.rounds) >= asked.rounds):
            counts[is_other] += 1
        else:
            wrong.append(f"{name}: {found.verdict} {found.reason}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{counts[True]} of {len(OTHER)} programs that do other work are not comparable")
    print(f"{counts[False]} of {len(SAME)} programs that do the same are compared")
    return 1 if wrong else 0


def prepare() -> None:
    """Compile the programs, and put down what they find on the machine, in a container or in both."""
    made = FOLDER / "made"
    made.mkdir(parents=True, exist_ok=True)
    ASIDE.mkdir(exist_ok=True)
    compiled_with("mpicc.openmpi", made / "works", APPS / "works.c", "-lm", "-lpthread", "-ldl")
    compile_to(
        made / "in-fortran", "mpif90.openmpi", APPS / "works.f90", "-O2", "-Wall", "-Werror", "-static-libgfortran"
    )
    for script in ("by-script", "with a blank"):
        (made / script).write_text(f'#!/bin/sh\nexec "$(dirname "$0")/works" usual {ASIDE}\n')
        (made / script).chmod(0o755)
    extra = made / "extra.c"
    extra.write_text("int extra;\n")
    for library in (*PRELOADED.values(), made / "libblasworks.so", ASIDE / "libopenblasworks.so"):
        compile_to(library, "cc", extra, "-shared", "-fPIC")
    for folder in (made, ASIDE):
        (folder / "input").write_bytes(bytes(5 << 20))
    (ASIDE / "steps").write_text("50000")


def measured(runtime: str, rounds: int) -> Iterator[tuple[str, Comparison]]:
    """Yield each program's name and its comparison of the container with the machine."""
    program = str(FOLDER / "made" / "works")
    programs = {name: (program, name, str(ASIDE)) for name in (*OTHER, *SAME)}
    programs |= {name: (str(FOLDER / "made" / name),) for name in WITHOUT_WAYS}
    for name, library in PRELOADED.items():
        yield from _study(
            f"{runtime}-{name}", runtime, rounds, {name: programs.pop(name)}, {"LD_PRELOAD": str(library)}
        )
    yield from _study(runtime, runtime, rounds, programs, {})


def _study(
    name: str, runtime: str, rounds: int, programs: Mapping[str, Sequence[str]], variables: Mapping[str, str]
) -> Iterator[tuple[str, Comparison]]:
    folder = FOLDER / name
    environments: dict[str, dict[str, Any]] = {"bare": {"runtime": "bare"}, "inside": {"runtime": runtime}}
    stated = {
        "baseline": "bare",
        "cluster": {"lab": {"nodes": 2}},
        "environments": {each: {**of, "network": "host", "env": dict(variables)} for each, of in environments.items()},
        "placements": ["2x1"],
        "workloads": {each: {"command": list(command)} for each, command in programs.items()},
        "repetition": {"rounds": rounds, "turns": 1},
    }
    file = FOLDER / f"{name}.yaml"
    file.write_text(yaml.safe_dump(stated, sort_keys=False))
    made = str(FOLDER / "made")
    with chdir(made), redirect_stdout(io.StringIO()):
        commands.run_plan(replace(study.load(file), writable=made), folder, shown=(made,))
    for (group, _, environment), found in comparisons(folder).items():
        if environment == "inside":
            yield group.partition(" / ")[0], found


if __name__ == "__main__":
    sys.exit(main())
