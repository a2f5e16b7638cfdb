"""Choose the mends of tests/mends/table.md from the history, and write the table and the patches.

    python tests/mends/choose.py [--seed 35] [--until eaf35c0c]

A candidate is what a commit changed in src/ or in kernels/ and miniapps/, or in one file of them if all of it is more
than 40 lines or cannot be taken back in today's tree. Candidates are shuffled with the seed and tried in order, and at
most one of a commit is taken. A test of the same package that the commit changed, too, has to fail with it taken back
and to pass otherwise. Sentences of a table that exists stay.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import random
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from check import COLUMNS, HERE, ROOT, Mend, finding, in_copies, ran, table, taken_back

MOST_LINES = 40
MOST_OF_COMMIT = {"Python": 150, "C": 1000}
"""In how many lines of source a commit may change all files; those that change C are few."""
OTHER = re.compile(r"(?i)reword|renam|\bmove|docstring|plain|\bwords?\b|\bsplit|clang-format|of CPU|faster|\bwip\b")
"""Subjects of commits that change words or speed."""
NAMES = re.compile(r"(?m)^[+-] *(?:(?:async )?def|class|@|from tare|import tare|\w+: [\w\[\], |.]+(?: = .*)?$)")
"""A line by which a name comes or goes that other files may use; without its commit's other files it breaks them."""
NO_MENDS = {
    "batch-slurm-2b72a541-4", "common-output-9d6ee3e3", "common-usage-9d6ee3e3", "kernels-registry-301252a0",
    "npb-bt-124f444f-4", "npb-cg-99416961-3", "npb-sp-124f444f-4", "samples-drawing-1a6fbc3c-5",
    "study-names-301252a0-2", "workloads-kernels-207a7ca9-3", "workloads-kernels-726a6c55",
    "workloads-startup-7946434a",
}  # fmt: skip
"""Candidates that are caught, but that are parts of additions, read by hand; with npb-cg-99416961-3 CG never ends."""
KINDS = {".py": "Python", ".c": "C"}
C_TESTS = ["tests/kernels", "tests/miniapps"]
SLOW = {"test_builds.py"}
WANTED = {"Python": 50, "C": 10}


class Candidate(NamedTuple):
    """What a commit changed; `patch` takes it back, and `files` are the most changed first."""

    commit: str
    subject: str
    files: tuple[str, ...]
    patch: str
    part: str = ""

    @property
    def language(self) -> str:
        return KINDS[Path(self.files[0]).suffix]

    @property
    def name(self) -> str:
        words = "-".join([*Path(self.files[0]).with_suffix("").parts[-2:], self.commit])
        return re.sub(r"[^a-z0-9]+", "-", words) + self.part


def git(*argv: str, text: str = "") -> str | None:
    done = subprocess.run(("git", *argv), cwd=ROOT, input=text, text=True, capture_output=True, check=False)
    return None if done.returncode else done.stdout


def size(patch: str) -> int:
    return len(re.findall(r"(?m)^[+-](?![+-]{2} )", patch))


def candidates(until: str) -> Iterable[Candidate]:
    """Give all candidates of the history."""
    with_tests = set((git("log", "--format=%h", until, "--", "tests") or "").split())
    options = ("--no-merges", "--diff-filter=M", "-p", "-R", "--src-prefix=b/", "--dst-prefix=a/", "--format=%x00%h %s")
    for entry in (git("log", *options, until, "--", "src", "kernels", "miniapps") or "").split("\0")[1:]:
        head, *patches = re.split(r"(?m)^(?=diff --git )", entry)
        commit, _, subject = head.strip().partition(" ")
        for language in ("Python", "C"):
            files = {patch.split(maxsplit=3)[2][2:]: patch for patch in sorted(patches, key=size, reverse=True)}
            files = {file: patch for file, patch in files.items() if KINDS.get(Path(file).suffix) == language}
            total = sum(map(size, files.values()))
            if commit not in with_tests or OTHER.search(subject) or total > MOST_OF_COMMIT[language]:
                continue
            whole = Candidate(commit, subject, tuple(files), "".join(files.values()))
            pieces = [whole] if fits(whole) else [each for file in files.items() for each in parts(whole, *file)]
            yield from filter(tests_of, pieces)


def parts(whole: Candidate, file: str, patch: str) -> Iterable[Candidate]:
    """Give what a commit changed in a file if it can be taken back alone, or else each hunk that can."""
    head, *hunks = re.split(r"(?m)^(?=@@ )", patch)
    single = whole._replace(files=(file,), patch=patch)
    each_hunk = [single._replace(patch=head + hunk, part=f"-{number}") for number, hunk in enumerate(hunks, 1)]
    return [part for part in ([single] if fits(single) else each_hunk) if fits(part) and not NAMES.search(part.patch)]


def fits(candidate: Candidate) -> bool:
    """Return whether a candidate is small and can be taken back in today's tree."""
    small = 0 < size(candidate.patch) <= MOST_LINES
    return small and git("apply", "--check", "-C1", "-", text=candidate.patch) is not None


@functools.cache
def changed_tests(commit: str) -> set[str]:
    """Return the names of the files of tests that a commit changed."""
    files = (git("show", "--format=", "--name-only", commit, "--", "tests") or "").split()
    return {Path(file).name for file in files if Path(file).name.startswith("test_")}


def tests_of(candidate: Candidate) -> list[str]:
    """Return the tests of its packages, or of C, that the commit changed and that are still there."""
    names = changed_tests(candidate.commit) - SLOW
    folders = [f"tests/unit/{Path(file).parts[2]}" for file in candidate.files if file.startswith("src/")]
    there = [path for folder in folders or C_TESTS for path in sorted((ROOT / folder).rglob("test_*.py"))]
    return list(dict.fromkeys(str(path.relative_to(ROOT)) for path in there if path.name in names))


def tried(copy: Path, candidate: Candidate) -> tuple[Mend, str] | None:
    """Return the row and the patch of a candidate that is caught, None for others; print what came of it."""
    with taken_back(copy, candidate.patch) as misfit:
        patch = "".join(difference(copy, file) for file in sorted(candidate.files))
        test, how = ("", misfit) if misfit else finding(*ran(copy, tests_of(candidate), "-x"))
    if test and ran(copy, [test])[0]:
        test, how = "", f"{test} fails with nothing taken back, too"
    print(f"{candidate.name}: {f'caught by {test}: {how}' if test else how} ({candidate.subject})", flush=True)
    first = test.partition("::")[0]
    folder = "/".join(first.split("/")[: 3 if first.startswith("tests/unit/") else 2])
    row = (candidate.name, candidate.commit, candidate.language, candidate.subject, "make test", folder, first)
    return (Mend(**dict(zip(COLUMNS, row, strict=True))), patch) if test else None


def difference(copy: Path, file: str) -> str:
    now, then = ((root / file).read_text().splitlines(keepends=True) for root in (ROOT, copy))
    return "".join(difflib.unified_diff(now, then, f"a/{file}", f"b/{file}"))


def main() -> None:
    """Try candidates until enough are caught, and write the rows of the table and the patches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--until", default="eaf35c0c")
    asked = parser.parse_args()
    found = sorted(candidates(asked.until), key=lambda each: (each.commit, each.name))
    random.Random(asked.seed).shuffle(found)
    caught: dict[str, tuple[Mend, str]] = {}

    def chosen(language: str) -> dict[str, tuple[Mend, str]]:
        """Return what is caught by now, by commit: the first of each, and as many as are wanted."""
        mine: dict[str, tuple[Mend, str]] = {}
        for each in found:
            if each.language == language and each.name in caught:
                mine.setdefault(each.commit, caught[each.name])
        return dict(list(mine.items())[: WANTED[language]])

    def attempt(copy: Path, candidate: Candidate) -> None:
        mine = chosen(candidate.language)
        wanted = len(mine) < WANTED[candidate.language] and candidate.commit not in mine
        if wanted and candidate.name not in NO_MENDS and (row := tried(copy, candidate)):
            caught[candidate.name] = row

    in_copies(found, attempt)
    sentences = {mend.name: mend.what for mend in table()}
    for old in HERE.glob("*.patch"):
        old.unlink()
    head = (HERE / "table.md").read_text().partition("|---|")[0]
    rows = ["|" + "---|" * len(COLUMNS)]
    for mend, patch in [*chosen("Python").values(), *chosen("C").values()]:
        mend.patch.write_text(patch)
        what = sentences.get(mend.name, mend.what)
        cells = (f"`{mend.name}`", mend.commit, mend.language, what, mend.target, f"`{mend.folder}`", f"`{mend.first}`")
        rows.append(f"| {' | '.join(cells)} |")
    (HERE / "table.md").write_text(head + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
