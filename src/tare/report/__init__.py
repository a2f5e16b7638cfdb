"""Render reports of a summary for readers: the terminal's tables and the HTML page; `export` has other formats.

`render_html` needs summary, trials and samples; the terminal's need the summary alone: `BriefReport`, the first screen,
`render_text` and `render`, all of it. `frames` are the tables behind them, `live` writes the page while a study runs.
"""

from __future__ import annotations

from tare.report.brief import BriefReport
from tare.report.html import html_parts, render_html
from tare.report.plots.histograms import SampleSource
from tare.report.terminal import render, render_text

__all__ = ["BriefReport", "SampleSource", "html_parts", "render", "render_html", "render_text"]
