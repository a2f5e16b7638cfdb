"""Turn costs into overheads, intervals and verdicts: pure functions, no I/O (METHOD.md section 1; docs/method.md).

Conventions. A *cost* is in seconds and positive (a rate is inverted before it gets here). `d` is an array of shape
(n,) with one log ratio per **round**, d_r = ln(cost in the environment / cost in the baseline): the round is what is
independent, blocks and iterations within it are not. Functions that return `Estimate | None` return None where a
figure is not computable (fewer than two rounds), never NaN. Arrays that hold NaN or infinity raise ValueError.

Sources: Hunold & Carpen-Amarie, arXiv:1505.07734 (the launch is the unit); Kalibera & Jones, ISMM'13, section 6
(levels of repetition); Hoefler & Belli, SC'15 (the twelve rules); Holm, Scand. J. Stat. 6 (1979); Schuirmann,
J. Pharmacokinet. Biopharm. 15 (1987), TOST; Efron, JASA 82 (1987), BCa; Hartigan & Hartigan, Ann. Stat. 13 (1985).
The module is longer than most because the figures of one page of method are easier to check on one page of code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tare.model import Estimate, Repetition, Verdict

FloatArray = NDArray[np.float64]
Block = tuple[int, int]
"""(round, block) of a trial."""

MIN_ROUNDS: Final = 6
"""Rounds below which no verdict is given."""
FIRST_LOOK: Final = 10
"""Rounds at which the stopping rule looks for the first time; later looks are at twice the rounds of the last."""
MODALITY_ROUNDS: Final = 20
"""Rounds from which on the dip test is made."""
BOOTSTRAP_RESAMPLES: Final = 2000
LOOKS_SHARE: Final = 0.75
"""Share of alpha left for decisions where a study may stop at several looks (`decision_confidence`)."""
ROUNDING: Final = 1e-12
"""Relative differences below this are floating-point rounding and are treated as zero."""
MAX_ROUNDS_NEEDED: Final = 100_000
"""Where `rounds_needed` stops counting."""


# --- one launch -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStatistics:
    """What one launch says: mean, median and 99th percentile in seconds over `n` iterations."""

    mean_s: float
    median_s: float
    p99_s: float
    n: int


def launch_statistics(samples_max: ArrayLike) -> LaunchStatistics:
    """Summarise one launch (METHOD.md section 1, rule 2).

    `samples_max`: shape (iterations,), seconds, the maximum over ranks of each iteration after warm-up. Percentiles
    interpolate linearly. Raises ValueError if there is no sample or one is not finite.
    """
    samples = _vector(samples_max)
    if samples.size == 0:
        raise ValueError("a launch without samples has no statistics")
    median, p99 = np.percentile(samples, (50, 99))
    return LaunchStatistics(mean_s=float(samples.mean()), median_s=float(median), p99_s=float(p99), n=samples.size)


def p99_minus_median(gaps_s: ArrayLike) -> float:
    """Return the spread of arrival gaps, 99th percentile - median, in seconds (the spacing metric).

    `gaps_s`: shape (gaps,), seconds. Raises ValueError as `launch_statistics` does.
    """
    figures = launch_statistics(gaps_s)
    return figures.p99_s - figures.median_s


def arithmetic_mean(costs: ArrayLike) -> float:
    """Return the mean of costs (METHOD.md rule of metrics 3). Raises ValueError if there is none."""
    values = _vector(costs)
    if values.size == 0:
        raise ValueError("no costs, no mean")
    return float(values.mean())


def harmonic_mean(rates: ArrayLike) -> float:
    """Return the mean of rates: the inverse of the mean of the costs behind them.

    Raises ValueError if there is none or one is not positive.
    """
    return 1.0 / arithmetic_mean(1.0 / _positive(rates))


# --- pairs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPairs:
    """An environment against its baseline, one entry a round in which both exist; arrays of shape (n,).

    `log_ratios` has no unit, the others are seconds.
    """

    rounds: tuple[int, ...]
    log_ratios: FloatArray
    differences_s: FloatArray
    environment_s: FloatArray
    baseline_s: FloatArray


def log_ratios(environment_s: ArrayLike, baseline_s: ArrayLike) -> FloatArray:
    """Return ln(environment / baseline) elementwise, shape (n,).

    Raises ValueError if shapes differ or a cost is not positive and finite.
    """
    environment, baseline = _positive(environment_s), _positive(baseline_s)
    if environment.shape != baseline.shape:
        raise ValueError(f"{environment.size} costs cannot be paired with {baseline.size}")
    ratios: FloatArray = np.log(environment) - np.log(baseline)
    return ratios


def pair_rounds(environment_s: Mapping[Block, float], baseline_s: Mapping[Block, float]) -> RoundPairs:
    """Pair costs block by block, then average over the blocks of each round.

    A block counts only where both costs exist. Within a round the *log* ratios are averaged (a geometric mean, so
    that what a block does to both cancels exactly), and the differences and the costs arithmetically. Every round
    weighs the same. Raises ValueError if a cost is not positive and finite.
    """
    common = sorted(environment_s.keys() & baseline_s.keys())
    environment = _positive([environment_s[block] for block in common])
    baseline = _positive([baseline_s[block] for block in common])
    of_round = [block[0] for block in common]
    rounds, ratios = round_means(of_round, log_ratios(environment, baseline))
    return RoundPairs(
        rounds=rounds,
        log_ratios=ratios,
        differences_s=round_means(of_round, environment - baseline)[1],
        environment_s=round_means(of_round, environment)[1],
        baseline_s=round_means(of_round, baseline)[1],
    )


def round_means(rounds: Sequence[int], values: ArrayLike) -> tuple[tuple[int, ...], FloatArray]:
    """Average values over the blocks of each round: (rounds ascending, their means of shape (n,))."""
    array = _vector(values)
    unique, index, counts = np.unique(np.asarray(rounds, dtype=np.int64), return_inverse=True, return_counts=True)
    sums = np.zeros(unique.size)
    np.add.at(sums, index, array)
    return tuple(int(number) for number in unique), sums / counts


# --- intervals --------------------------------------------------------------------------------------------------


def mean_interval(values: ArrayLike, confidence: float, scale: float = 0.0) -> Estimate | None:
    """Return the mean of one value per round with its t interval; None for fewer than two. Unit of the values.

    `scale` is the size of what the values were computed from, where that is larger than they are: a spread below
    ROUNDING times it is no spread.
    """
    mean, error, n = _mean_and_error(_vector(values), scale)
    if n < 2:
        return None
    half = _t_quantile(n, confidence) * error
    return Estimate(value=mean, low=mean - half, high=mean + half, n=n)


def paired_t(d: ArrayLike, confidence: float) -> Estimate | None:
    """Return the overhead exp(mean d) - 1 with its paired t interval (METHOD.md section 1, rule 3).

    A fraction of the baseline's cost: 0.59 is 59 % more. None for fewer than two rounds.
    """
    logs = _log_interval(d, confidence)
    if logs is None:
        return None
    return Estimate(value=_expm1(logs.value), low=_expm1(logs.low), high=_expm1(logs.high), n=logs.n)


def paired_difference(environment_s: ArrayLike, baseline_s: ArrayLike, confidence: float) -> Estimate | None:
    """Return the added seconds, mean(environment - baseline), with its paired t interval over rounds.

    Raises ValueError if the shapes differ.
    """
    environment, baseline = _vector(environment_s), _vector(baseline_s)
    if environment.shape != baseline.shape:
        raise ValueError(f"{environment.size} costs cannot be paired with {baseline.size}")
    scale = max(np.abs(environment).max(initial=0.0), np.abs(baseline).max(initial=0.0))
    return mean_interval(environment - baseline, confidence, scale)


def bca_ratio_of_medians(
    environment_s: ArrayLike, baseline_s: ArrayLike, confidence: float, seed: int = 1
) -> Estimate | None:
    """Return median(environment) / median(baseline) with a paired BCa bootstrap interval (Efron 1987, section 3).

    Costs of shape (n,), one per round; rounds are resampled as pairs, with the same seeded indices for every
    comparison of a size, so that a report is reproducible. A median takes few distinct values, hence ties count half
    in the bias correction. The normal quantile is expanded to sqrt(n / (n - 1)) t(n-1) (Hesterberg, Am. Stat. 69,
    2015): rounds share effects, and with 6 to 10 of them plain BCa covered .84 to .93 in simulation, this .94 to .97.
    None for fewer than two rounds; ValueError if a cost is not positive.
    """
    environment, baseline = _positive(environment_s), _positive(baseline_s)
    if environment.shape != baseline.shape:
        raise ValueError(f"{environment.size} costs cannot be paired with {baseline.size}")
    n = environment.size
    if n < 2:
        return None
    value = float(np.median(environment) / np.median(baseline))
    indices = _resamples(n, seed)
    resampled = np.median(environment[indices], axis=1) / np.median(baseline[indices], axis=1)
    left_out = _leave_one_out(n)
    jackknife = np.median(environment[left_out], axis=1) / np.median(baseline[left_out], axis=1)
    z = _t_quantile(n, confidence) * math.sqrt(n / (n - 1))
    low, high = np.quantile(resampled, _bca_levels(value, resampled, jackknife, z))
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value), n=n)


def noise_floor(self_overheads: Iterable[Estimate]) -> float | None:
    """Return the largest overhead (fraction) that A/A intervals reach on either side; None without any.

    The interval is the floor, not its point (METHOD.md section 1, rule 6).
    """
    bounds = [max(abs(estimate.low), abs(estimate.high)) for estimate in self_overheads]
    return max(bounds, default=None)


# --- tests ------------------------------------------------------------------------------------------------------


def paired_p(d: ArrayLike) -> float | None:
    """Return the two-sided p of the paired t test of "no difference"; None for fewer than two rounds.

    Without any spread p is 1 if the mean is zero and 0 if it is not.
    """
    mean, error, n = _mean_and_error(_vector(d), 1.0)
    if n < 2:
        return None
    return min(1.0, 2.0 * _upper_tail(abs(mean), error, n))


def equivalent(d: ArrayLike, margin: float, confidence: float = 0.90) -> bool:
    """Tell whether the 90 % interval lies inside +-ln(1 + margin): two one-sided tests at 5 % (Schuirmann 1987)."""
    logs = _log_interval(d, confidence)
    bound = math.log1p(margin) if margin > 0 else 0.0
    return logs is not None and -bound < logs.low and logs.high < bound


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's step-down adjusted p values, in the order given (Holm 1979)."""
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return tuple(adjusted)


def holm_confidences(p_values: Sequence[float], confidence: float) -> tuple[float, ...]:
    """Return the confidence at which each comparison's interval decides exactly as Holm's test does.

    The comparison of rank k (smallest p first) of m has 1 - alpha/(m - k + 1); from the first that is not rejected
    on, all keep that one's level, so their intervals cover zero. The intervals exclude zero wrongly *anywhere* in
    the table with probability <= alpha. They do not promise to cover all true values at once: Bonferroni intervals
    would, and would then not agree with Holm's decisions.
    """
    alpha = 1.0 - confidence
    levels = [confidence] * len(p_values)
    stopped: float | None = None
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        step = alpha / (len(p_values) - rank)
        if stopped is None and p_values[index] > step:
            stopped = step
        levels[index] = 1.0 - (step if stopped is None else stopped)
    return tuple(levels)


def over_limit(series: Sequence[ArrayLike], limit: float, confidence: float) -> tuple[bool, ...]:
    """Tell for each comparison whether its overhead is beyond `limit` (a fraction): what makes exit code 1.

    `series`: one `d` per comparison of the table. For a table of one: the lower bound of the interval is above the
    limit (and there are at least MIN_ROUNDS rounds). For more, the one-sided tests of "not above the limit" are
    adjusted by Holm, so that the code is wrong for any of them with probability <= (1 - confidence)/2.
    """
    p_values = [_p_not_above(_vector(d), math.log1p(limit)) for d in series]
    return tuple(p <= (1.0 - confidence) / 2.0 for p in holm(p_values))


@dataclass(frozen=True, slots=True, kw_only=True)
class KruskalWallis:
    """H, its p value and the effect size epsilon squared (0 nothing, 1 all of the variance of the ranks)."""

    h: float
    p_value: float
    epsilon_squared: float
    n: int
    groups: int


def kruskal_wallis(samples: Sequence[ArrayLike]) -> KruskalWallis:
    """Compare several environments by ranks, ties corrected (Kruskal & Wallis, JASA 47, 1952, equation 1.4).

    `samples`: one array per environment, one value per round. epsilon^2 = H / (n - 1) (Tomczak & Tomczak 2014). All
    values equal: H = 0, p = 1. Raises ValueError for fewer than two environments or an empty one.
    """
    arrays = [_vector(sample) for sample in samples]
    if len(arrays) < 2 or any(array.size == 0 for array in arrays):
        raise ValueError("Kruskal-Wallis needs at least two environments, each with at least one value")
    values, index, counts = np.unique(np.concatenate(arrays), return_inverse=True, return_counts=True)
    n = int(index.size)
    if values.size == 1:
        return KruskalWallis(h=0.0, p_value=1.0, epsilon_squared=0.0, n=n, groups=len(arrays))
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2.0
    parts = np.split(mean_ranks[index], np.cumsum([array.size for array in arrays])[:-1])
    spread = sum(part.size * (float(part.mean()) - (n + 1) / 2.0) ** 2 for part in parts)
    tie_correction = 1.0 - float(np.sum(counts.astype(np.float64) ** 3 - counts)) / (float(n) ** 3 - n)
    h = 12.0 * spread / (n * (n + 1)) / tie_correction
    p_value = float(special.chdtrc(len(arrays) - 1, h))
    return KruskalWallis(h=h, p_value=p_value, epsilon_squared=min(1.0, h / (n - 1)), n=n, groups=len(arrays))


def dip_p_value(d: ArrayLike) -> float | None:
    """Return the p of Hartigan's dip test of one mode; None below MODALITY_ROUNDS rounds or without `diptest`."""
    values = _vector(d)
    if values.size < MODALITY_ROUNDS:
        return None
    if _mean_and_error(values, 1.0)[1] == 0.0:
        return 1.0
    try:
        import diptest  # GPL, therefore optional
    except ImportError:
        return None
    return float(diptest.diptest(values)[1])


def normality_p(d: ArrayLike) -> float | None:
    """Return the p of Shapiro & Wilk's test of normality; None below three rounds or without spread."""
    from scipy import stats  # half a second of start-up, for a rare question

    values = _vector(d)
    if not 3 <= values.size <= 5000 or _mean_and_error(values, 1.0)[1] == 0.0:
        return None
    return float(stats.shapiro(values).pvalue)


def signed_rank_p(d: ArrayLike) -> float | None:
    """Return the two-sided p of Wilcoxon's signed-rank test; None without a difference other than zero."""
    from scipy import stats  # as above

    values = _vector(d)
    values = values[np.abs(values) > ROUNDING]
    if values.size == 0:
        return None
    distinct = np.unique(np.abs(values)).size == values.size
    method: Literal["exact", "approx"] = "exact" if values.size <= 50 and distinct else "approx"
    return min(1.0, float(stats.wilcoxon(values, method=method).pvalue))


# --- when to stop -----------------------------------------------------------------------------------------------


def next_look(n: int, first: int = FIRST_LOOK) -> int:
    """Return the next number of rounds at which the stopping rule looks: first, 2 first, 4 first, ..., > n."""
    look = max(1, first)
    while look <= n:
        look *= 2
    return look


def is_look(rounds_done: int, repetition: Repetition) -> bool:
    """Tell whether the stopping rule may look now: at 10, 20, 40, ... rounds.

    Where more than 10 rounds are planned (`repetition.rounds`): at once, twice, four times, ... that many.
    """
    return rounds_done > 0 and next_look(rounds_done - 1, max(FIRST_LOOK, repetition.rounds)) == rounds_done


def enough(d: ArrayLike, repetition: Repetition, rounds_done: int | None = None) -> bool:
    """Tell whether the estimate is precise enough to stop (METHOD.md section 1, rule 4).

    True only at a look (`is_look`) and if the half-width of the log interval is <= max(target, |mean d| / 4). Never
    looks at a p value. `rounds_done` counts the rounds that were run where some gave no valid pair; it defaults to n.
    """
    values = _vector(d)
    logs = _log_interval(values, repetition.confidence)
    if logs is None or values.size < MIN_ROUNDS:
        return False
    if not is_look(values.size if rounds_done is None else rounds_done, repetition):
        return False
    return (logs.high - logs.low) / 2.0 <= max(repetition.target_half_width, abs(logs.value) / 4.0)


def decision_confidence(repetition: Repetition, confidence: float | None = None) -> float:
    """Return the confidence at which decisions are taken: the nominal one, raised where a study may stop early.

    Stopping when the interval is narrow favours rounds that by chance spread little: with looks at 10, 20 and 40
    a 95 % interval covers at worst .934 (simulated over spread and cost; still above .93, and shown as it is), A/A is
    called different in up to 6.5 %. Decisions therefore use alpha x LOOKS_SHARE (96.25 %), which keeps them within 5 %.
    `confidence` is that of the policy unless given.
    """
    nominal = repetition.confidence if confidence is None else confidence
    first = max(FIRST_LOOK, repetition.rounds)
    return 1.0 - LOOKS_SHARE * (1.0 - nominal) if repetition.max_rounds > first else nominal


def rounds_needed(d: ArrayLike, target: float, confidence: float = 0.95) -> int | None:
    """Estimate how many rounds give the log interval a half-width <= `target`, from the spread seen so far.

    Smallest n >= 2 with t(n-1) s / sqrt(n) <= target; at most MAX_ROUNDS_NEEDED. None if the spread is not known
    (n < 2) or the target not positive.
    """
    values = _vector(d)
    if values.size < 2 or target <= 0:
        return None
    deviation = _mean_and_error(values, 1.0)[1] * math.sqrt(values.size)
    normal = float(special.ndtri(0.5 + confidence / 2.0)) * deviation / target
    if normal**2 >= MAX_ROUNDS_NEEDED:
        return MAX_ROUNDS_NEEDED
    needed = max(2, math.ceil(normal**2))
    while _t_quantile(needed, confidence) * deviation > target * math.sqrt(needed):
        needed += 1
    return needed


# --- verdict ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, why, and about how many more rounds would decide (None where it is decided or not known)."""

    verdict: Verdict
    reason: str = ""
    more_rounds: int | None = None


def verdict(
    d: ArrayLike,
    *,
    margin: float,
    confidence: float = 0.95,
    adjusted: float | None = None,
    equivalence: float = 0.90,
) -> Judgement:
    """Judge one comparison (METHOD.md section 1, rule 5).

    The first of these that holds:

    1. fewer than MIN_ROUNDS rounds: INCONCLUSIVE, whatever the figures;
    2. the interval at confidence `equivalence` (90 %) inside +-ln(1 + margin): NO_COST *beyond the margin*, also
       where a small cost is clear (the reason then says so). Not adjusted for the table: "no cost anywhere" needs
       each of its tests to pass, which cannot raise the error (intersection-union);
    3. the interval at confidence `adjusted` (from `holm_confidences`; default: `confidence`) above zero: COSTS;
    4. the same below zero: GAINS;
    5. INCONCLUSIVE, with the rounds after which 2 or 3 would hold if mean and spread stay as they are.
    """
    values = _vector(d)
    level = confidence if adjusted is None else adjusted
    alone, table = _log_interval(values, confidence), _log_interval(values, level)
    if alone is None or table is None or values.size < MIN_ROUNDS:
        missing = max(MIN_ROUNDS - values.size, _rounds_to_decide(values, margin, level, equivalence) or 0)
        reason = f"{values.size} of the at least {MIN_ROUNDS} rounds that a verdict needs"
        return Judgement(verdict=Verdict.INCONCLUSIVE, reason=reason, more_rounds=missing)
    if equivalent(values, margin, equivalence):
        clear = ""
        if table.low > 0 or table.high < 0:
            clear = f"a {'cost' if table.low > 0 else 'gain'} is clear, but within the margin"
        return Judgement(verdict=Verdict.NO_COST, reason=clear)
    if table.low > 0:
        return Judgement(verdict=Verdict.COSTS)
    if table.high < 0:
        return Judgement(verdict=Verdict.GAINS)
    if alone.low > 0 or alone.high < 0:
        side = "above" if alone.low > 0 else "below"
        reason = f"{side} zero alone, but not among all comparisons of the table (Holm)"
    else:
        reason = "the interval holds both zero and more than the margin"
    return Judgement(
        verdict=Verdict.INCONCLUSIVE, reason=reason, more_rounds=_rounds_to_decide(values, margin, level, equivalence)
    )


def _rounds_to_decide(d: FloatArray, margin: float, confidence: float, equivalence: float) -> int | None:
    """Return how many more rounds make `d` equivalent or different, whichever comes first; at least 1."""
    mean, _, n = _mean_and_error(d, 1.0)
    if n < 2:
        return None
    room = math.log1p(margin) - abs(mean) if margin > 0 else 0.0
    options = (rounds_needed(d, room, equivalence), rounds_needed(d, abs(mean), confidence))
    needed = min((option for option in options if option is not None), default=None)
    return None if needed is None else max(1, needed - n)


# --- helpers ----------------------------------------------------------------------------------------------------


def _vector(values: ArrayLike) -> FloatArray:
    """Return the values as a finite array of shape (n,)."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"expected shape (n,), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("a value is not finite")
    return array


def _positive(values: ArrayLike) -> FloatArray:
    array = _vector(values)
    if (array <= 0).any():
        raise ValueError("a cost or rate is not positive, so it has no ratio")
    return array


def _log_interval(d: ArrayLike, confidence: float) -> Estimate | None:
    """Return mean d with its t interval; logs round at the size of 1 whatever their value."""
    return mean_interval(d, confidence, 1.0)


def _mean_and_error(values: FloatArray, scale: float) -> tuple[float, float, int]:
    """Return mean, standard error (0 if the spread is mere rounding) and n; (0, 0, 0) for none."""
    n = values.size
    if n == 0:
        return 0.0, 0.0, 0
    mean = float(values.mean())
    if n == 1:
        return mean, 0.0, 1
    centred = values - mean
    deviation = math.sqrt(float(centred @ centred) / (n - 1))
    rounding = ROUNDING * max(scale, float(np.abs(values).max()))
    if deviation <= rounding:
        return (mean if abs(mean) > rounding else 0.0), 0.0, n
    return mean, deviation / math.sqrt(n), n


@lru_cache(maxsize=4096)
def _t_quantile(n: int, confidence: float) -> float:
    """Return the two-sided quantile of Student's t for n values (n - 1 degrees of freedom)."""
    return float(special.stdtrit(n - 1, 0.5 + confidence / 2.0))


def _upper_tail(distance: float, error: float, n: int) -> float:
    """Return P(T > distance / error); without spread 0, 1/2 or 1 by the sign of the distance."""
    if error > 0.0:
        return float(special.stdtr(n - 1, -distance / error))
    if abs(distance) <= ROUNDING:
        return 0.5
    return 0.0 if distance > 0 else 1.0


def _p_not_above(d: FloatArray, bound: float) -> float:
    """Return the one-sided p of "mean d <= bound"; 1 below MIN_ROUNDS rounds."""
    mean, error, n = _mean_and_error(d, 1.0)
    return 1.0 if n < MIN_ROUNDS else _upper_tail(mean - bound, error, n)


def _expm1(x: float) -> float:
    return math.inf if x > 700.0 else math.expm1(x)


@lru_cache(maxsize=64)
def _resamples(n: int, seed: int) -> NDArray[np.intp]:
    """Return the bootstrap's indices, shape (BOOTSTRAP_RESAMPLES, n)."""
    return np.random.default_rng([seed, n]).integers(0, n, size=(BOOTSTRAP_RESAMPLES, n), dtype=np.intp)


@lru_cache(maxsize=64)
def _leave_one_out(n: int) -> NDArray[np.intp]:
    """Return indices of shape (n, n - 1); row i leaves out i."""
    indices = np.tile(np.arange(n, dtype=np.intp), (n, 1))
    return indices[~np.eye(n, dtype=bool)].reshape(n, n - 1)


def _bca_levels(value: float, resampled: FloatArray, jackknife: FloatArray, z: float) -> tuple[float, float]:
    """Return the two quantiles of the bootstrap distribution that bound the BCa interval (Efron 1987, eq. 2.3)."""
    size = resampled.size
    tolerance = ROUNDING * value
    below = float(np.mean(resampled < value - tolerance)) + float(np.mean(np.abs(resampled - value) <= tolerance)) / 2
    bias = float(special.ndtri(min(max(below, 0.5 / size), 1.0 - 0.5 / size)))
    centred = jackknife.mean() - jackknife
    squares = float(np.sum(centred**2))
    acceleration = float(np.sum(centred**3)) / (6.0 * squares**1.5) if squares > tolerance**2 else 0.0
    levels = []
    for side in (-z, z):
        shifted = bias + side
        denominator = 1.0 - acceleration * shifted
        quantile = bias + shifted / denominator if denominator > 0 else math.copysign(math.inf, shifted)
        levels.append(float(special.ndtr(quantile)))
    return levels[0], levels[1]
