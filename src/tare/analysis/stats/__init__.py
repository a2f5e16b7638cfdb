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

from tare.analysis.stats.arrays import FloatArray as FloatArray
from tare.analysis.stats.arrays import Moments as Moments
from tare.analysis.stats.arrays import moments_of as moments_of
from tare.analysis.stats.arrays import vector as vector
from tare.analysis.stats.change_points import MOST_RESULTS as MOST_RESULTS
from tare.analysis.stats.change_points import ChangePoint as ChangePoint
from tare.analysis.stats.change_points import change_points as change_points
from tare.analysis.stats.change_points import levels as levels
from tare.analysis.stats.covariates import LAUNCHES_PER_STATE as LAUNCHES_PER_STATE
from tare.analysis.stats.covariates import fit_states as fit_states
from tare.analysis.stats.deviations import jackknifed_log_deviation as jackknifed_log_deviation
from tare.analysis.stats.failures import as_often_p as as_often_p
from tare.analysis.stats.failures import missed_share as missed_share
from tare.analysis.stats.failures import more_often_p as more_often_p
from tare.analysis.stats.failures import share_interval as share_interval
from tare.analysis.stats.hypotheses import MIN_ROUNDS as MIN_ROUNDS
from tare.analysis.stats.hypotheses import dip_p_value as dip_p_value
from tare.analysis.stats.hypotheses import equivalent as equivalent
from tare.analysis.stats.hypotheses import holm as holm
from tare.analysis.stats.hypotheses import holm_confidences as holm_confidences
from tare.analysis.stats.hypotheses import normality_p as normality_p
from tare.analysis.stats.hypotheses import not_above_p as not_above_p
from tare.analysis.stats.hypotheses import not_below_p as not_below_p
from tare.analysis.stats.hypotheses import over_limit as over_limit
from tare.analysis.stats.hypotheses import paired_p as paired_p
from tare.analysis.stats.hypotheses import signed_rank_p as signed_rank_p
from tare.analysis.stats.intervals import at_most as at_most
from tare.analysis.stats.intervals import bca_ratio_of_medians as bca_ratio_of_medians
from tare.analysis.stats.intervals import estimated as estimated
from tare.analysis.stats.intervals import mean_cost as mean_cost
from tare.analysis.stats.intervals import mean_interval as mean_interval
from tare.analysis.stats.intervals import median_by_ranks as median_by_ranks
from tare.analysis.stats.intervals import paired_difference as paired_difference
from tare.analysis.stats.intervals import paired_t as paired_t
from tare.analysis.stats.launches import LEAST_IN_A_TURN as LEAST_IN_A_TURN
from tare.analysis.stats.launches import Block as Block
from tare.analysis.stats.launches import LaunchStatistics as LaunchStatistics
from tare.analysis.stats.launches import RoundPairs as RoundPairs
from tare.analysis.stats.launches import TurnLogs as TurnLogs
from tare.analysis.stats.launches import all_launches as all_launches
from tare.analysis.stats.launches import launch_statistics as launch_statistics
from tare.analysis.stats.launches import log_ratios as log_ratios
from tare.analysis.stats.launches import p99_minus_median as p99_minus_median
from tare.analysis.stats.launches import pair_rounds as pair_rounds
from tare.analysis.stats.launches import round_means as round_means
from tare.analysis.stats.launches import shares_of_turns as shares_of_turns
from tare.analysis.stats.launches import turn_logs as turn_logs
from tare.analysis.stats.launches import typical_turns as typical_turns
from tare.analysis.stats.looks import FAILURES_ALPHA as FAILURES_ALPHA
from tare.analysis.stats.looks import SELF_ALPHA as SELF_ALPHA
from tare.analysis.stats.looks import STATE_ALPHA as STATE_ALPHA
from tare.analysis.stats.looks import Look as Look
from tare.analysis.stats.looks import look_at as look_at
from tare.analysis.stats.looks import looks_of as looks_of
from tare.analysis.stats.looks import share_of_look as share_of_look
from tare.analysis.stats.modes import separation as separation
from tare.analysis.stats.modes import split_modes as split_modes
from tare.analysis.stats.order import TENTHS as TENTHS
from tare.analysis.stats.order import lag1_bound as lag1_bound
from tare.analysis.stats.order import lag1_of_launches as lag1_of_launches
from tare.analysis.stats.order import profile_of_launches as profile_of_launches
from tare.analysis.stats.order import trend as trend
from tare.analysis.stats.shares import share_of_cost as share_of_cost
from tare.analysis.stats.stopping import is_look as is_look
from tare.analysis.stats.stopping import next_look as next_look
from tare.analysis.stats.stopping import precise_enough as precise_enough
from tare.analysis.stats.two_samples import two_sample as two_sample
from tare.analysis.stats.verdicts import MAX_ROUNDS_NEEDED as MAX_ROUNDS_NEEDED
from tare.analysis.stats.verdicts import Judgement as Judgement
from tare.analysis.stats.verdicts import Views as Views
from tare.analysis.stats.verdicts import rounds_needed as rounds_needed
from tare.analysis.stats.verdicts import verdict as verdict
