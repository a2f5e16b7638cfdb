"""Compute overheads, intervals and verdicts from costs: pure functions, no I/O (METHOD.md section 1; docs/method.md).

Conventions. A *cost* is in seconds and positive (rates are inverted first). `d` is an array of shape (n,) with one
log ratio per **round**, d_r = ln(cost in the environment / cost in the baseline): rounds are independent, blocks and
iterations within them are not. Functions that return `Estimate | None` return None if the value is not computable
(fewer than two rounds), never NaN. Arrays with NaN or infinity raise ValueError.

Sources: Hunold & Carpen-Amarie, arXiv:1505.07734 (the launch is the unit); Kalibera & Jones, ISMM'13, section 6
(levels of repetition); Hoefler & Belli, SC'15 (the twelve rules); Holm, Scand. J. Stat. 6 (1979); Schuirmann,
J. Pharmacokinet. Biopharm. 15 (1987), TOST; Efron, JASA 82 (1987), BCa; Hartigan & Hartigan, Ann. Stat. 13 (1985).
"""

from __future__ import annotations

from tare.stats.arrays import ROUNDING, FloatArray, Moments, moments_of, vector
from tare.stats.change_points import MOST_RESULTS, ChangePoint, change_points, levels
from tare.stats.covariates import LAUNCHES_PER_STATE, StateFit, fit_states
from tare.stats.deviations import jackknifed_log_deviation
from tare.stats.failures import as_often_p, missed_share, more_often_p, share_interval
from tare.stats.hypotheses import (
    MIN_ROUNDS,
    MODALITY_ROUNDS,
    dip_p_value,
    equivalent,
    holm,
    holm_confidences,
    normality_p,
    not_above_p,
    not_below_p,
    over_limit,
    paired_p,
    signed_rank_p,
)
from tare.stats.intervals import (
    at_most,
    bca_ratio_of_medians,
    mean_interval,
    median_by_ranks,
    noise_floor,
    paired_difference,
    paired_t,
)
from tare.stats.launches import (
    LEAST_IN_A_TURN,
    Block,
    LaunchStatistics,
    RoundPairs,
    TurnLogs,
    all_launches,
    launch_statistics,
    log_ratios,
    p99_minus_median,
    pair_rounds,
    round_means,
    shares_of_turns,
    turn_logs,
    typical_turns,
)
from tare.stats.looks import (
    FAILURES_ALPHA,
    FIRST_SHARE,
    SELF_ALPHA,
    STATE_ALPHA,
    looks_of,
    share_of_look,
)
from tare.stats.modes import Separation, separation, split_modes
from tare.stats.order import TENTHS, Trend, lag1, lag1_bound, lag1_of_launches, profile, profile_of_launches, trend
from tare.stats.resampling import BOOTSTRAP_RESAMPLES
from tare.stats.shares import share_of_cost
from tare.stats.stopping import FIRST_LOOK, is_look, next_look, precise_enough
from tare.stats.two_samples import two_sample
from tare.stats.verdicts import (
    LADDER,
    MAX_ROUNDS_NEEDED,
    Judgement,
    Views,
    ladder,
    rounds_needed,
    verdict,
)

__all__ = [
    "BOOTSTRAP_RESAMPLES",
    "FAILURES_ALPHA",
    "FIRST_LOOK",
    "FIRST_SHARE",
    "LADDER",
    "LAUNCHES_PER_STATE",
    "LEAST_IN_A_TURN",
    "MAX_ROUNDS_NEEDED",
    "MIN_ROUNDS",
    "MODALITY_ROUNDS",
    "MOST_RESULTS",
    "ROUNDING",
    "SELF_ALPHA",
    "STATE_ALPHA",
    "TENTHS",
    "Block",
    "ChangePoint",
    "FloatArray",
    "Judgement",
    "LaunchStatistics",
    "Moments",
    "RoundPairs",
    "Separation",
    "StateFit",
    "Trend",
    "TurnLogs",
    "Views",
    "all_launches",
    "as_often_p",
    "at_most",
    "bca_ratio_of_medians",
    "change_points",
    "dip_p_value",
    "equivalent",
    "fit_states",
    "holm",
    "holm_confidences",
    "is_look",
    "jackknifed_log_deviation",
    "ladder",
    "lag1",
    "lag1_bound",
    "lag1_of_launches",
    "launch_statistics",
    "levels",
    "log_ratios",
    "looks_of",
    "mean_interval",
    "median_by_ranks",
    "missed_share",
    "moments_of",
    "more_often_p",
    "next_look",
    "noise_floor",
    "normality_p",
    "not_above_p",
    "not_below_p",
    "over_limit",
    "p99_minus_median",
    "pair_rounds",
    "paired_difference",
    "paired_p",
    "paired_t",
    "precise_enough",
    "profile",
    "profile_of_launches",
    "round_means",
    "rounds_needed",
    "separation",
    "share_interval",
    "share_of_cost",
    "share_of_look",
    "shares_of_turns",
    "signed_rank_p",
    "split_modes",
    "trend",
    "turn_logs",
    "two_sample",
    "typical_turns",
    "vector",
    "verdict",
]
