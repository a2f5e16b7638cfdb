"""Explain a cost: what speaks for which cause, how much of the cost it explains, and what removes it.

Evidence -> clues of each cause -> suspects -> ablations, in which one factor is changed -> the cause.
`causes` has one file for each cause.
"""

from __future__ import annotations

from tare.analysis.explain.cause_ranking import Explained, causes_of, explain
from tare.analysis.explain.shares import CostShare, Measured, ResultsIndex

__all__ = ["CostShare", "Explained", "Measured", "ResultsIndex", "causes_of", "explain"]
