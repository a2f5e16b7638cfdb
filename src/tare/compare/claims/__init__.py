"""Hold the claims of publications against results: say which are reproduced, and which are contradicted.

In: a file of claims a publication (`claims/`), and results folders of the studies that it names. Out: a verdict a claim
with its interval, all of them under Holm's control. What decides each claim is written before the study is run.
"""

from __future__ import annotations

from tare.compare.claims.judge import judge
from tare.compare.claims.model import Claim, ClaimVerdict, Judged, Paper
from tare.compare.claims.read import read_paper

__all__ = ["Claim", "ClaimVerdict", "Judged", "Paper", "judge", "read_paper"]
