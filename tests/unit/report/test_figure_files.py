"""Figures as files: each is an SVG and a PDF with a readable name, and both are vector graphics."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import samples_factory as factory
from factory_options import Options
from tare.errors import MissingTool
from tare.report.html import figures_of
from tare.report.plots.figures import Drawing
from tare.report.plots.files import write_figures


@pytest.fixture(scope="module")
def figures() -> list[tuple[str, Drawing]]:
    result = factory.make(Options(rounds=6, samples=60))
    return list(figures_of(result.summary, result.trials, result.samples))


def test_every_figure_is_written_as_svg_and_as_pdf(tmp_path: Path, figures: list[tuple[str, Drawing]]) -> None:
    pytest.importorskip("cairosvg")
    count = write_figures(figures, tmp_path / "new" / "folder")
    files = sorted(path.name for path in (tmp_path / "new/folder").iterdir())
    assert len(files) == 2 * count > 2 * len(figures)
    assert all(re.fullmatch(r"[a-z0-9-]+[.](svg|pdf)", name) for name in files)
    assert "ecdf-micro-2n-x-1r-latency-8-tail.svg" in files
    for path in (tmp_path / "new/folder").iterdir():
        content = path.read_bytes()
        assert len(content) > 1000
        assert b"/Subtype /Image" not in content, "a picture of dots"
        if path.suffix == ".pdf":
            assert content.startswith(b"%PDF-")
        else:
            drawn = ElementTree.fromstring(content)
            assert float(drawn.attrib["width"]) > float(drawn.attrib["height"]) > 80
            assert b"var(" not in content, "a colour of the page's style sheet"


def test_figures_of_equal_names_do_not_overwrite_each_other(tmp_path: Path, figures: list[tuple[str, Drawing]]) -> None:
    pytest.importorskip("cairosvg")
    (workload, figure), *_ = figures
    assert write_figures([(workload, figure), (workload, figure), ("../../x", figure)], tmp_path) >= 3
    assert len(list(tmp_path.iterdir())) % 2 == 0
    assert all(path.parent == tmp_path for path in tmp_path.rglob("*.svg"))


def test_a_missing_library_is_named_before_anything_is_written(
    tmp_path: Path, figures: list[tuple[str, Drawing]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "cairosvg":
            raise ImportError("No module named 'cairosvg'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingTool, match="cairosvg") as caught:
        write_figures(figures, tmp_path / "folder")
    assert "tare-hpc[figures]" in caught.value.remedy
    assert not (tmp_path / "folder").exists()
