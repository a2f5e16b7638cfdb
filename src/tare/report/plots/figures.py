"""The data class of a figure, and words that all figures share. The colours of environments are in `styles`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from tare.report.plots.charts import Chart
from tare.report.plots.svg import WIDE, svg

NOT_DRAWN: Final = Markup("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One figure: its title (one sentence, the takeaway), its caption with the number of observations, and its chart.

    `closer` shows a part of it at a larger scale, `closer_name` says which. `svg` and `closer_svg` have the charts once
    they are drawn: they take a tenth of the memory.
    """

    ident: str
    title: str
    caption: str
    chart: Chart | None
    closer: Chart | None = None
    closer_name: str = ""
    svg: Markup = NOT_DRAWN
    closer_svg: Markup = NOT_DRAWN

    @property
    def wide(self) -> bool:
        """Tell whether the figure takes the whole width of the page."""
        return f'viewBox="0 0 {WIDE:g} ' in self.svg[:60] if self.chart is None else self.chart.wide

    def drawn(self) -> Drawing:
        """Return the figure as SVG, without the charts."""
        if self.chart is None:
            return self
        closer = NOT_DRAWN
        if self.closer is not None:
            title = f"{self.closer_name}: {self.title}"
            closer = svg(self.closer, f"{self.ident}-closer", title, self.caption)
        drawn = svg(self.chart, self.ident, self.title, self.caption)
        return replace(self, chart=None, closer=None, svg=drawn, closer_svg=closer)


def n_text(counts: Sequence[int], noun: str) -> str:
    """Return the number of observations behind each element of a plot, as `n = 10 rounds each`."""
    if not counts:
        return f"n = 0 {noun}"
    low, high = min(counts), max(counts)
    return f"n = {low:,} {noun} each" if low == high else f"n = {low:,} to {high:,} {noun}"
