"""Turn costs into overheads, intervals and verdicts: pure functions, no I/O (METHOD.md section 1; docs/method.md).

Conventions. A *cost* is in seconds and positive (a rate is inverted before it gets here). `d` is an array of shape
(n,) with one log ratio per **round**, d_r = ln(cost in the environment / cost in the baseline): the round is what is
independent, blocks and iterations within it are not. Functions that return `Estimate | None` return None where a
figure is not computable (fewer than two rounds), never NaN. Arrays that hold NaN or infinity raise ValueError.

Sources: Hunold & Carpen-Amarie, arXiv:1505.07734 (the launch is the unit); Kalibera & Jones, ISMM'13, section 6
(levels of repetition); Hoefler & Belli, SC'15 (the twelve rules); Holm, Scand. J. Stat. 6 (1979); Schuirmann,
J. Pharmacokinet. Biopharm. 15 (1987), TOST; Efron, JASA 82 (1987), BCa; Hartigan & Hartigan, Ann. Stat. 13 (1985).
"""

from __future__ import annotations

from tare.stats.arrays import ROUNDING, FloatArray
from tare.stats.hypotheses import (
    MIN_ROUNDS,
    MODALITY_ROUNDS,
    KruskalWallis,
    dip_p_value,
    equivalent,
    holm,
    holm_confidences,
    kruskal_wallis,
    normality_p,
    over_limit,
    paired_p,
    signed_rank_p,
)
from tare.stats.intervals import (
    BOOTSTRAP_RESAMPLES,
    bca_ratio_of_medians,
    mean_interval,
    noise_floor,
    paired_difference,
    paired_t,
)
from tare.stats.launches import (
    Block,
    LaunchStatistics,
    RoundPairs,
    arithmetic_mean,
    harmonic_mean,
    launch_statistics,
    log_ratios,
    p99_minus_median,
    pair_rounds,
    round_means,
)
from tare.stats.verdicts import (
    FIRST_LOOK,
    LOOKS_SHARE,
    MAX_ROUNDS_NEEDED,
    Judgement,
    decision_confidence,
    enough,
    is_look,
    next_look,
    rounds_needed,
    verdict,
)

__all__ = [
    "BOOTSTRAP_RESAMPLES",
    "FIRST_LOOK",
    "LOOKS_SHARE",
    "MAX_ROUNDS_NEEDED",
    "MIN_ROUNDS",
    "MODALITY_ROUNDS",
    "ROUNDING",
    "Block",
    "FloatArray",
    "Judgement",
    "KruskalWallis",
    "LaunchStatistics",
    "RoundPairs",
    "arithmetic_mean",
    "bca_ratio_of_medians",
    "decision_confidence",
    "dip_p_value",
    "enough",
    "equivalent",
    "harmonic_mean",
    "holm",
    "holm_confidences",
    "is_look",
    "kruskal_wallis",
    "launch_statistics",
    "log_ratios",
    "mean_interval",
    "next_look",
    "noise_floor",
    "normality_p",
    "over_limit",
    "p99_minus_median",
    "pair_rounds",
    "paired_difference",
    "paired_p",
    "paired_t",
    "round_means",
    "rounds_needed",
    "signed_rank_p",
    "verdict",
]
