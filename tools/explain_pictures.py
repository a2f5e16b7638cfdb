"""Draw the pictures of docs/explaining.md from results that `tare explain --run` and `--remedy` have been used on.

    tools/explain_pictures.py results/why      writes docs/pictures/explain-*.{png,svg}; the report's needs chromium

Each picture shows the results as they were at that step: what was measured later is left out of a copy.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from tare.analysis.explain.remedy import REMEDIED
from tare.analysis.explain.stored_costs import FOLDER as EXPLAIN
from tare.cli import commands
from tare.cli.afterwards.explain_command import explain_results
from tare.cli.afterwards.options import ExplainOptions
from tare.system.process import run

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
MOST_BYTES = 150_000
WIDTH = 140
"""Columns of a terminal's picture."""
SCREEN = (1180, 570)
"""Width and height of the report's picture, in pixels."""
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What rich adds to have fonts loaded from the network."""


def stage(results: Path, keep: Callable[[str], bool], below: Path) -> Path:
    """Return a copy of results with only those ablations whose folder `keep` wants."""
    copy = below / "results" / results.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(results, copy, ignore=shutil.ignore_patterns(EXPLAIN, "report.html", "samples"))
    shutil.copytree(results / "samples", copy / "samples")
    for each in (results / EXPLAIN).iterdir():
        if keep(each.name):
            shutil.copytree(each, copy / EXPLAIN / each.name)
    return copy


def terminal(command: str, wanted: ExplainOptions) -> str:
    """Return a terminal's picture as SVG: a command and what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        explain_results(wanted)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, markup=False)
    console.print(f"$ {command}", style="bold")
    console.print(printed.getvalue().rstrip("\n"))
    svg = console.export_svg(title=" ", theme=DEFAULT_TERMINAL_THEME, unique_id="tare")
    return "".join(f"{line.rstrip()}\n" for line in FONT_FACE.sub("", svg).splitlines())


def first_screen(copy: Path, file: Path) -> None:
    """Write a picture of the first screen of a report."""
    page = copy.parent / "report.html"
    with redirect_stdout(io.StringIO()):
        commands.show_report(copy, page)
    width, height = SCREEN
    run(
        ("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         f"--user-data-dir={copy.parent / 'profile'}", f"--window-size={width},{height}",
         f"--screenshot={file}", page.absolute().as_uri()),
        timeout_s=60, what="chromium",
    )  # fmt: skip


def draw(results: Path) -> Iterator[Path]:
    """Draw the pictures of results and yield their files."""
    PICTURES.mkdir(exist_ok=True)
    named = Path("results") / results.name
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        below = Path(folder)
        copy = stage(results, lambda _: False, below)
        first_screen(copy, PICTURES / "explain-1-question.png")
        yield PICTURES / "explain-1-question.png"
        asked = f"tare explain {named}"
        steps = {
            "explain-2-evidence.svg": (asked, lambda _: False, ExplainOptions(results=named)),
            "explain-3-proof.svg": (
                f"{asked} --run", lambda name: not name.startswith(REMEDIED), ExplainOptions(results=named),
            ),
            "explain-4-remedy.svg": (f"{asked} --remedy", lambda _: True, ExplainOptions(results=named, remedy=True)),
        }  # fmt: skip
        for name, (command, keep, wanted) in steps.items():
            stage(results, keep, below)
            (PICTURES / name).write_text(terminal(command, wanted))
            yield PICTURES / name


def main(arguments: list[str]) -> int:
    """Draw all pictures and return the exit code."""
    if len(arguments) != 1 or not (Path(arguments[0]) / EXPLAIN).is_dir():
        print("name a results folder in which `tare explain --run` has measured", file=sys.stderr)
        return 2
    large = [file.name for file in draw(Path(arguments[0]).absolute()) if os.path.getsize(file) > MOST_BYTES]
    for name in large:
        print(f"docs/pictures/{name} has more than {MOST_BYTES} bytes", file=sys.stderr)
    return int(bool(large))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
