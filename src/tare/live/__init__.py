"""Show a study in a browser while it runs: the report so far, progress, and what was discarded.

The run's own thread answers the browser, and only between launches (docs/live.md). In: a run's events and its store.
Out: a page on 127.0.0.1. Only `tare.cli` imports this package.
"""

from __future__ import annotations

from tare.live.door import Door
from tare.live.watcher import Live, watched

__all__ = ["Door", "Live", "watched"]
