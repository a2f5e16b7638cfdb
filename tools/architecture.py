"""Draw docs/architecture.svg, the packages of tare and their imports, from the code's own imports.

Without an argument it writes the picture; with --check it ends with 1 where the picture differs from the code.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "tare"
PICTURE: Final = ROOT / "docs" / "architecture.svg"
LAYERS: Final = "Imports go one way, against the way in which a study travels"
"""The contract of pyproject.toml that orders the packages; `make lint` holds the imports to it."""
ROW, TOP, LEFT, WIDTH = 30, 40, 260, 1140


def packages() -> list[str]:
    """Return the packages, those that import first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["name"] == LAYERS]
    return list(layers)


def files_of(package: str) -> list[Path]:
    """Return the modules of a package; links to C sources are left out."""
    single = SOURCE / f"{package}.py"
    return [single] if single.exists() else sorted(p for p in (SOURCE / package).rglob("*.py") if not p.is_symlink())


def imports_of(package: str) -> set[str]:
    """Return the other packages of tare that a package imports."""
    found = set()
    for path in files_of(package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "tare":
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tare."):
                found.add((node.module or "").split(".")[1])
    return (found & set(packages())) - {package}


def direct(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports that do not follow from others: where A imports B and B imports C, A's of C is left out."""

    def below(package: str) -> set[str]:
        return {package}.union(*(below(each) for each in imports[package]))

    return {
        package: {one for one in its if not any(one in below(other) for other in its - {one})}
        for package, its in imports.items()
    }


def sentence(package: str) -> str:
    """Return the first sentence of a package's docstring."""
    path = SOURCE / f"{package}.py" if package == "errors" else SOURCE / package / "__init__.py"
    return (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]


def picture() -> str:
    """Return the picture: a row for each package, an arc from each package to those that it imports."""
    names = packages()
    place = {name: TOP + ROW * number for number, name in enumerate(names)}
    height = TOP + ROW * len(names)
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
            f'font-size="13" role="img" aria-label="The packages of tare and their imports">'
        ),
        (
            "<style>text{fill:#1f2328}.what{fill:#57606a}path{fill:none;stroke:#8c959f}circle{fill:#0969da}"
            "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.what{fill:#9198a1}circle{fill:#4493f8}}</style>"
        ),
        f'<text x="{LEFT - 12}" y="18" class="what" text-anchor="end">an arc leads down to what is imported</text>',
    ]
    for name, its in direct({name: imports_of(name) for name in names}).items():
        for one in sorted(its, key=names.index):
            start, end = place[name], place[one]
            bend = LEFT - 16 - min((end - start) * 0.55, LEFT - 30)
            lines.append(f'<path d="M{LEFT} {start} C{bend:.0f} {start} {bend:.0f} {end} {LEFT} {end}"/>')
    for name in names:
        count = len(files_of(name))
        note = f"{count} module{'s' if count > 1 else ''}"
        lines += [
            f'<circle cx="{LEFT}" cy="{place[name]}" r="4"><title>{note}</title></circle>',
            f'<text x="{LEFT + 12}" y="{place[name] + 4}" font-weight="bold">{name}</text>',
            f'<text x="{LEFT + 110}" y="{place[name] + 4}" class="what">{escape(sentence(name))}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    """Write the picture, or compare it."""
    new = picture()
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(new)
        return 0
    if PICTURE.exists() and PICTURE.read_text() == new:
        return 0
    print("docs/architecture.svg differs from the code: run tools/architecture.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
