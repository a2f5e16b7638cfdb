"""Parts of what `tare compare` and `tare history` print in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from tare.model.text import printable


def table(
    heads: Sequence[str], rows: Sequence[Sequence[Text]], widths: Sequence[int], *, with_heads: bool = True
) -> Table:
    """Return a table without lines, whose texts are folded to these widths."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_header=with_heads)
    for head, width in zip(heads, widths, strict=True):
        drawn.add_column(Text(printable(head)), width=width, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    return drawn
