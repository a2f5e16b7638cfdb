#!/usr/bin/env python3
"""Run the studies that test a paper's claims, and judge the claims: `tools/papers.py 003 [--thin]` (root).

Results go to results/papers/003/STUDY; a second call goes on where the first was stopped, on the same machine only.
Studies of cluster `local` are run as an ordinary user. With `--thin` the studies' thin versions are run, into
results/papers-thin/: to see that they still run. Prints the minutes of each study and writes results/papers/003.md, the
whole table, of which docs/papers/ has the short one. Exits 1 if a study could not be measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tools")]

import ordinary_user  # noqa: E402 - found through the line above

from tare.clusters.local import LocalCluster  # noqa: E402 - found through the line above
from tare.compare.claims import read_paper  # noqa: E402 - found through the line above
from tare.compare.claims.judge import studies_of  # noqa: E402 - found through the line above
from tare.compare.claims.model import Test  # noqa: E402 - found through the line above
from tare.study import load  # noqa: E402 - found through the line above
from tare.system import process  # noqa: E402 - found through the line above

MEASURED = (0, 1, 3, 4)
"""Exit codes of a study whose cells were measured, with whatever verdicts, or of which some could not run."""
LIMIT_S = 7200.0
LOCAL = LocalCluster.name


def studies_for(paper: str) -> list[str]:
    """Return the studies that test a paper's claims, in the order in which its claims name them."""
    claims = read_paper(REPOSITORY / "claims" / f"{paper}.yaml").claims.values()
    return list(dict.fromkeys(name for claim in claims if isinstance(claim.by, Test) for name in studies_of(claim.by)))


def run(study: str, folder: Path, *, thin: bool) -> bool:
    """Run or resume a study, and print how long that took; return whether it was measured."""
    options = ("--thin",) if thin else ()
    path = f"studies/{study}.yaml"
    if load(REPOSITORY / path).cluster == LOCAL and os.geteuid() == 0:
        ended = as_ordinary_user(path, folder, *options)
    else:
        ended = tare("run", path, "-o", folder, *options)
    print(f"{study}: {ended.elapsed_s / 60:.1f} minutes, exit code {ended.status}", flush=True)
    if ended.status not in MEASURED:
        print(ended.stderr_tail, file=sys.stderr)
    return ended.status in MEASURED


def as_ordinary_user(path: str, folder: Path, *options: str) -> process.Result:
    """Run or resume a study of this machine as it is, as somebody without root's rights."""
    with ordinary_user.ordinary_user() as user:
        there = user.folder / "results" / folder.name
        there.parent.mkdir()
        if folder.is_dir():
            shutil.copytree(folder, there, symlinks=True)
        ordinary_user.own(there.parent, ordinary_user.UID)
        command = (str(ordinary_user.PYTHON), "-m", "tare.cli.app", "run", f"repository/{path}", "-o", str(there))
        argv = (*user.becoming, *command, *options)
        env = {**os.environ, **user.environment}
        ended = process.run(argv, cwd=user.folder, env=env, timeout_s=LIMIT_S, check=False)
        if there.is_dir():
            ordinary_user.own(there, 0)
            shutil.copytree(there, folder, symlinks=True, dirs_exist_ok=True)
    return ended


def tare(*arguments: object) -> process.Result:
    """Run a command of tare to its end."""
    argv = (sys.executable, "-m", "tare.cli.app", *map(str, arguments))
    return process.run(argv, cwd=REPOSITORY, timeout_s=LIMIT_S, check=False)


def main() -> int:
    """Run a paper's studies and judge its claims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paper")
    parser.add_argument("--thin", action="store_true")
    asked = parser.parse_args()
    below = REPOSITORY / "results" / ("papers-thin" if asked.thin else "papers") / asked.paper
    below.mkdir(parents=True, exist_ok=True)
    measured = [study for study in studies_for(asked.paper) if run(study, below / study, thin=asked.thin)]
    on = [word for study in measured for word in ("--on", below / study)]
    table = below.with_name(f"{below.name}.md")
    judged = tare("claims", asked.paper, *on, "--markdown")
    if judged.status not in MEASURED:
        print(judged.stderr_tail, file=sys.stderr)
        return 1
    table.write_text(judged.stdout)
    print(f"{table.relative_to(REPOSITORY)}: {judged.stdout.rstrip().splitlines()[-1]}")
    return 0 if len(measured) == len(studies_for(asked.paper)) else 1


if __name__ == "__main__":
    sys.exit(main())
