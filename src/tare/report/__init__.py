"""Render reports of a summary: one function per format, in one registry.

`render_html` needs summary, trials and samples; `render_text` and `terminal.render` need the summary alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tare.model import Summary, Trial
from tare.report.html import render_html
from tare.report.samples import NoSamples, SampleSource
from tare.report.terminal import render, render_text

Renderer = Callable[[Summary, Sequence[Trial], SampleSource], str]


def _terminal(summary: Summary, trials: Sequence[Trial], samples: SampleSource) -> str:  # noqa: ARG001
    """Return the terminal's report as plain text of 80 columns."""
    return render_text(summary)


FORMATS: Final[Mapping[str, Renderer]] = MappingProxyType({"terminal": _terminal, "html": render_html})
"""Every format by its name on the command line."""

__all__ = ["FORMATS", "NoSamples", "Renderer", "SampleSource", "render", "render_html", "render_text"]
