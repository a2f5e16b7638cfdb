"""Write figures as files: each as SVG and as PDF, both of them vector graphics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from tare.errors import MissingTool
from tare.report.plots.figures import Drawing
from tare.report.plots.svg import svg_file
from tare.system.packages import install, install_python
from tare.system.safe_files import folder_at, replacing

LONGEST: Final = 80
"""Characters of a file's name without its ending."""


def write_figures(figures: Iterable[tuple[str, Drawing]], folder: Path) -> int:
    """Write each figure, given with its workload, to `KIND-WORKLOAD-METRIC.svg` and `.pdf`; return how many there are.

    A figure that has a closer view is written with it, as `...-near-zero` or `...-tail`. Raises MissingTool if cairosvg
    is not installed, before anything is written, and OSError.
    """
    to_pdf = _converter()
    taken: set[str] = set()
    with folder_at(folder, make=True) as opened:
        for label, text in _documents(figures):
            name = _free_name(label, taken)
            for suffix, content in ((".svg", text.encode()), (".pdf", to_pdf(text))):
                with replacing(opened, name + suffix) as file:
                    file.write(content)
    return len(taken)


def _documents(figures: Iterable[tuple[str, Drawing]]) -> Iterator[tuple[str, str]]:
    """Yield the name and the SVG of each figure, and of its closer view."""
    for workload, figure in figures:
        drawn = figure.drawn()
        name = figure.ident if _slug(workload) in figure.ident else f"{workload} {figure.ident}"
        yield name, svg_file(drawn.svg)
        if drawn.closer_svg:
            yield f"{name} {figure.closer_name}", svg_file(drawn.closer_svg)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _free_name(label: str, taken: set[str]) -> str:
    """Return a file name of letters, digits and hyphens that no other figure has."""
    base = _slug(label)[:LONGEST].strip("-") or "figure"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


def _converter() -> Callable[[str], bytes]:
    """Return what makes a PDF of an SVG."""
    try:
        import cairosvg
    except (ImportError, OSError) as error:  # OSError: the library cairo is not there
        raise MissingTool(
            f"figures cannot be written as PDF: {error}",
            remedy=f"install it with `{install_python('cairosvg')}`, and the library cairo: {install('libcairo2')}",
        ) from error

    def to_pdf(text: str) -> bytes:
        content: bytes = cairosvg.svg2pdf(bytestring=text.encode())
        return content

    return to_pdf
