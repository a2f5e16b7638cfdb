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

from tare.stats.arrays import FloatArray as FloatArray
from tare.stats.arrays import Moments as Moments
from tare.stats.arrays import moments_of as moments_of
from tare.stats.arrays import vector as vector
from tare.stats.change_points import MOST_RESULTS as MOST_RESULTS
from tare.stats.change_points import ChangePoint as ChangePoint
from tare.stats.change_points import change_points as change_points
from tare.stats.change_points import levels as levels
from tare.stats.covariates import LAUNCHES_PER_STATE as LAUNCHES_PER_STATE
from tare.stats.covariates import fit_states as fit_states
from tare.stats.deviations import jackknifed_log_deviation as jackknifed_log_deviation
from tare.stats.failures import as_often_p as as_often_p
from tare.stats.failures import missed_share as missed_share
from tare.stats.failures import more_often_p as more_often_p
from tare.stats.failures import share_interval as share_interval
from tare.stats.hypotheses import MIN_ROUNDS as MIN_ROUNDS
from tare.stats.hypotheses import dip_p_value as dip_p_value
from tare.stats.hypotheses import equivalent as equivalent
from tare.stats.hypotheses import holm as holm
from tare.stats.hypotheses import holm_confidences as holm_confidences
from tare.stats.hypotheses import normality_p as normality_p
from tare.stats.hypotheses import not_above_p as not_above_p
from tare.stats.hypotheses import not_below_p as not_below_p
from tare.stats.hypotheses import over_limit as over_limit
from tare.stats.hypotheses import paired_p as paired_p
from tare.stats.hypotheses import signed_rank_p as signed_rank_p
from tare.stats.intervals import at_most as at_most
from tare.stats.intervals import bca_ratio_of_medians as bca_ratio_of_medians
from tare.stats.intervals import estimated as estimated
from tare.stats.intervals import mean_cost as mean_cost
from tare.stats.intervals import mean_interval as mean_interval
from tare.stats.intervals import median_by_ranks as median_by_ranks
from tare.stats.intervals import paired_difference as paired_difference
from tare.stats.intervals import paired_t as paired_t
from tare.stats.launches import LEAST_IN_A_TURN as LEAST_IN_A_TURN
from tare.stats.launches import Block as Block
from tare.stats.launches import LaunchStatistics as LaunchStatistics
from tare.stats.launches import RoundPairs as RoundPairs
from tare.stats.launches import TurnLogs as TurnLogs
from tare.stats.launches import all_launches as all_launches
from tare.stats.launches import launch_statistics as launch_statistics
from tare.stats.launches import log_ratios as log_ratios
from tare.stats.launches import p99_minus_median as p99_minus_median
from tare.stats.launches import pair_rounds as pair_rounds
from tare.stats.launches import round_means as round_means
from tare.stats.launches import shares_of_turns as shares_of_turns
from tare.stats.launches import turn_logs as turn_logs
from tare.stats.launches import typical_turns as typical_turns
from tare.stats.looks import FAILURES_ALPHA as FAILURES_ALPHA
from tare.stats.looks import SELF_ALPHA as SELF_ALPHA
from tare.stats.looks import STATE_ALPHA as STATE_ALPHA
from tare.stats.looks import Look as Look
from tare.stats.looks import look_at as look_at
from tare.stats.looks import looks_of as looks_of
from tare.stats.looks import share_of_look as share_of_look
from tare.stats.modes import separation as separation
from tare.stats.modes import split_modes as split_modes
from tare.stats.order import TENTHS as TENTHS
from tare.stats.order import lag1_bound as lag1_bound
from tare.stats.order import lag1_of_launches as lag1_of_launches
from tare.stats.order import profile_of_launches as profile_of_launches
from tare.stats.order import trend as trend
from tare.stats.shares import share_of_cost as share_of_cost
from tare.stats.stopping import is_look as is_look
from tare.stats.stopping import next_look as next_look
from tare.stats.stopping import precise_enough as precise_enough
from tare.stats.two_samples import two_sample as two_sample
from tare.stats.verdicts import MAX_ROUNDS_NEEDED as MAX_ROUNDS_NEEDED
from tare.stats.verdicts import Judgement as Judgement
from tare.stats.verdicts import Views as Views
from tare.stats.verdicts import rounds_needed as rounds_needed
from tare.stats.verdicts import verdict as verdict
