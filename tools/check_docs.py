"""Check the documentation: relative links lead somewhere, and every command of the CLI is described."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    """Return the Markdown files of the project."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def broken_links(page: Path) -> Iterator[str]:
    """Yield the relative links of a page that lead to no file."""
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        path = target.partition("#")[0]
        if path and "://" not in target and not target.startswith("mailto:") and not (page.parent / path).exists():
            yield f"{page.relative_to(ROOT)}: there is no {path}"


def undocumented_commands(text: str) -> Iterator[str]:
    """Yield the CLI's commands that no page mentions as `tare COMMAND`."""
    import typer.main

    from tare.cli import app

    group = typer.main.get_command(app.app)
    for name in getattr(group, "commands", {}):
        if not re.search(rf"\btare {re.escape(name)}\b", text):
            yield f"the command `tare {name}` is described neither in the README nor in docs/"


def main() -> int:
    """Print what is wrong and return the exit code."""
    found = [problem for page in pages() for problem in broken_links(page)]
    if (ROOT / "src/tare/cli/app.py").is_file():
        found += undocumented_commands("\n".join(page.read_text() for page in pages()))
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(f"docs: {len(pages())} pages are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
