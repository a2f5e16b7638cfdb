"""The formats for readers: the tables of the terminal, and the HTML page."""

from __future__ import annotations

from typing import Final

from tare.report import render_html, render_text
from tare.report.export.format import TextFormat
from tare.report.frames import Source


def terminal(source: Source) -> str:
    """Return the tables as text of eighty columns, with all metrics."""
    return render_text(source.summary, all_metrics=True)


def html(source: Source) -> str:
    """Return the report as one page that opens offline."""
    return render_html(source.summary, source.results.trials, source.results)


TERMINAL: Final = TextFormat(suffix=".txt", meaning="tables of eighty columns, with all metrics", text=terminal)
HTML: Final = TextFormat(suffix=".html", meaning="the report as one page", text=html)
