"""Renew a study's report while it runs, so that a browser can follow it (docs/live.md).

In: a run's events and its store. Out: report.html of the results folder. Only `tare.cli` imports this package.
"""

from __future__ import annotations

from tare.report.live.watcher import Live

__all__ = ["Live"]
