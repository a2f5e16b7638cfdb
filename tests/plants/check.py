"""Plant each cause and see whether `tare explain --run` names it: `python -m plants.check [--seeds 3] [NAMES]` (root).

`--further` takes the eight cases that the classifier was not made with, one seed each, in place of the kinds.

Results go to results/explain-check/NAME-SEED and are kept: what is there is not measured again. Prints a line for each
plant and seed, and how many of how many kinds were named first; exits 1 below the bound (all kinds but one).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from plants.misleading import MISLEADING
from plants.plants import FURTHER, PLAIN, PLANTED, PLANTS, Plant
from tare.analysis.explain import Explained, explain
from tare.analysis.explain.stored_costs import ablations_of, compared_of
from tare.model import Verdict
from tare.store.writer import read_only

REPOSITORY: Final = Path(__file__).parents[2]
FOLDER: Final = REPOSITORY / "results" / "explain-check"
SOURCES: Final = Path(__file__).parent / "sources"
BLAS: Final = {"openblas": "libopenblas0-serial", "blas": "libblas3"}
ALL: Final = {**PLANTS, **MISLEADING, **FURTHER}
BOUND: Final = len(PLANTS) - 1 + len(MISLEADING) - 1
"""All kinds but one; `nothing` is none."""
ROUNDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one plant and seed.

    `rows` is the number of costs, `first` how many of them name the planted cause, `covers` in how many of these what
    the change takes by itself is the cost, within a tenth above and below, `back` in how many the cell without the
    cause is at its baseline: no cost, or an interval that includes zero.
    """

    plant: str
    seed: int
    rows: int
    first: int
    covers: int
    back: int
    named: tuple[str, ...]
    seconds: float

    @property
    def right(self) -> bool:
        """Return whether the planted cause was named first on every cost; for no plant, that nothing was named."""
        if not ALL[self.plant].causes:
            return not self.named
        return self.rows > 0 and self.first == self.rows


def main() -> int:
    """Check the plants that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], default=[])
    parser.add_argument("--seeds", type=int, default=0, help="3 by default, 1 with --further")
    parser.add_argument("--further", action="store_true", help="the eight further cases")
    asked = parser.parse_args()
    prepare()
    outcomes = []
    for name in asked.names or (FURTHER if asked.further else {**PLANTS, **MISLEADING}):
        for seed in range(1, (asked.seeds or (1 if name in FURTHER else 3)) + 1):
            outcomes.append(check(ALL[name], seed))
            print(line(outcomes[-1]), flush=True)
    kinds = {each.plant for each in outcomes if ALL[each.plant].causes}
    right = {kind for kind in kinds if all(each.right for each in outcomes if each.plant == kind)}
    print(f"{len(right)} of {len(kinds)} kinds were named first with all seeds; {_of_nothing(outcomes)}")
    print(f"{sum(each.seconds for each in outcomes) / 60:.0f} minutes of measuring")
    return 0 if len(right) >= min(BOUND, len(kinds)) else 1


def _of_nothing(outcomes: Iterable[Outcome]) -> str:
    of_none = [each for each in outcomes if not ALL[each.plant].causes]
    return f"{sum(each.right for each in of_none)} of {len(of_none)} studies of equal cells have no explanation"


def prepare() -> None:
    """Compile what plants need."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "made").mkdir(exist_ok=True)
    made = FOLDER / "made"
    for library in ("slow_seccomp", "limit_files", "on_cores"):
        compiled_with("cc", made / f"{library}.so", SOURCES / f"{library}.c", "-shared", "-fPIC")
    for program in ("read_files", "close_files", "look_up", "read_first", "two_threads"):
        compiled_with("mpicc.openmpi", made / program, SOURCES / f"{program}.c", "-lpthread")
    library = Path(_library_folder("blas")) / "libblas.so.3"
    compiled_with("mpicc.openmpi", made / "multiply", SOURCES / "multiply.c", library)


def compiled_with(compiler: str, made: Path, source: Path, *options: object) -> None:
    """Compile one file without a warning."""
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *flags, str(source), "-o", str(made), *map(str, options)], check=True)


def study_of(plant: Plant, seed: int) -> dict[str, Any]:
    """Return the study of a plant."""
    return {
        "baseline": PLAIN,
        "cluster": {"lab": dict(plant.lab)},
        "environments": {PLAIN: _filled(plant.plain), PLANTED: _filled(plant.planted)},
        "placements": [plant.placement if isinstance(plant.placement, str) else dict(plant.placement)],
        "workloads": _filled(plant.workloads),
        "repetition": {"rounds": ROUNDS, "turns": plant.turns},
        "seed": seed,
    }


def _filled(value: Any) -> Any:
    """Return settings with the places of what was compiled and of libraries."""
    if isinstance(value, Mapping):
        return {name: _filled(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each) for each in value]
    if isinstance(value, str):
        found = {name: _library_folder(name) for name in BLAS if f"{{{name}}}" in value}
        for name, folder in {"folder": str(FOLDER / "made"), **found}.items():
            value = value.replace(f"{{{name}}}", folder)
    return value


def _library_folder(name: str) -> str:
    """Return the folder of a BLAS."""
    pattern = {"openblas": "*/openblas-serial/libblas.so.3", "blas": "*/blas/libblas.so.3"}[name]
    found = sorted(Path("/usr/lib").glob(pattern))
    if not found:
        raise SystemExit(f"{BLAS[name]} is missing: apt-get install {BLAS[name]}")
    return str(found[0].parent)


def check(plant: Plant, seed: int) -> Outcome:
    """Measure a plant with a seed unless it was, and return what came of it."""
    folder = FOLDER / f"{plant.name}-{seed}"
    kept = folder / "outcome.json"
    if kept.exists():
        stored = json.loads(kept.read_text())
        return Outcome(**{**stored, "named": tuple(stored["named"])})
    began = time.monotonic()
    file = FOLDER / f"{plant.name}-{seed}.yaml"
    file.write_text(yaml.safe_dump(study_of(plant, seed), sort_keys=False))
    with plant.beside(FOLDER / "made"):
        tare("run", file, "-o", folder)
        tare("explain", folder, PLANTED, "--run", "--rounds", str(ROUNDS))
    results = read_only(folder)
    costs = explain(results.plan, results.trials, compared_of(results), ablations_of(folder))
    outcome = _outcome(plant, seed, list(costs), time.monotonic() - began)
    kept.write_text(json.dumps(asdict(outcome)))
    return outcome


def _outcome(plant: Plant, seed: int, costs: list[Explained], seconds: float) -> Outcome:
    first = [cost for cost in costs if _is_right(plant, cost)]
    shares = [cost.division.alone[cost.named.name] for cost in first if cost.named is not None]
    return Outcome(
        plant=plant.name,
        seed=seed,
        rows=sum(cost.evidence.comparison.verdict is Verdict.COSTS for cost in costs),
        first=len(first),
        covers=sum(each.share is not None and each.share.high >= 0.9 and each.share.low <= 1.1 for each in shares),
        back=sum(each.without is not None and each.without.low <= 0.02 for each in shares),
        named=tuple(cost.named.name if cost.named else "unexplained" for cost in costs),
        seconds=round(seconds, 1),
    )


def _is_right(plant: Plant, cost: Explained) -> bool:
    """Return whether a cost is explained by a planted cause, or by all that were planted together."""
    if plant.together:
        return plant.causes <= {suspect.name for suspect in cost.proven}
    return (cost.named.name if cost.named else "unexplained") in plant.causes


def tare(*arguments: object) -> None:
    """Run tare; verdicts have exit codes too."""
    argv = (sys.executable, "-m", "tare.cli.app", *map(str, arguments))
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{' '.join(argv)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def line(outcome: Outcome) -> str:
    """Return an outcome as a line."""
    return (
        f"{outcome.plant:14} seed {outcome.seed}  {'right' if outcome.right else 'WRONG':5}  "
        f"{outcome.first} of {outcome.rows} costs named, {outcome.covers} covered, {outcome.back} back at the baseline"
        f"  ({', '.join(outcome.named) or 'no cost'}; {outcome.seconds:.0f} s)"
    )


if __name__ == "__main__":
    sys.exit(main())
