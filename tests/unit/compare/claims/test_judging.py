"""Claims are judged by intervals over rounds, all of them under Holm's control; what they lack is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from factory_explained import Behaviour, plan_of, trials_of
from factory_judged import HEAD, STUDY, changed, claim, decided, judged, results
from tare.compare.claims import ClaimVerdict, read_paper
from tare.errors import ResultsError, StudyError
from tare.model import Failed, Figure, Invalid, Metric, Outcome, Trial
from tare.model.trial import NOT_ENDED

FIRST = "{of: slower, against: plain, than: slow, than_against: plain, above: 10%}"


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        ("cost: {of: slow, against: plain, above: 0%}", ClaimVerdict.REPRODUCED),
        ("cost: {of: slow, against: plain, below: 0%}", ClaimVerdict.CONTRADICTED),
        ("cost: {of: slow, against: plain, above: 10%, below: 30%}", ClaimVerdict.REPRODUCED),
        ("cost: {of: slow, against: plain, within: 5%}", ClaimVerdict.CONTRADICTED),
        ("cost: {of: slow, against: plain, above: 20%}", ClaimVerdict.UNDECIDED),
        ("order: [plain, slow, slower]", ClaimVerdict.REPRODUCED),
        ("order: [plain, slower, slow]", ClaimVerdict.CONTRADICTED),
        ("change: {of: slower, against: plain, than: slow, than_against: plain, above: 10%}", ClaimVerdict.REPRODUCED),
        (
            "costs: [{of: slow, against: plain, above: 5%}, {of: slower, against: slow, above: 5%}]",
            ClaimVerdict.REPRODUCED,
        ),
        ("costs: [{of: slow, against: plain, above: 5%}, {of: slower, against: slow, above: 60%}]",
         ClaimVerdict.CONTRADICTED),
        ("cost: {of: slow, against: plain, beyond: 5%}", ClaimVerdict.REPRODUCED),
        ("cost: {of: plain, against: slow, beyond: 5%}", ClaimVerdict.REPRODUCED),
        ("cost: {of: slow, against: plain, beyond: 40%}", ClaimVerdict.CONTRADICTED),
        ("cost: {of: slow, against: plain, beyond: 20%}", ClaimVerdict.UNDECIDED),
        (f"changes: [{FIRST}, {{of: slow, against: plain, than: plain, than_against: plain, above: 10%}}]",
         ClaimVerdict.REPRODUCED),
        (f"changes: [{FIRST}, {{of: slow, against: plain, than: slower, than_against: plain, above: 0%}}]",
         ClaimVerdict.CONTRADICTED),
        ("runs: [plain, slow]", ClaimVerdict.REPRODUCED),
        ("fails: [slow]", ClaimVerdict.CONTRADICTED),
        ("runs: [plain], fails: [slow]", ClaimVerdict.CONTRADICTED),
    ],
)  # fmt: skip
def test_a_verdict_is_what_the_rounds_show(tmp_path: Path, test: str, verdict: ClaimVerdict) -> None:
    found = decided(tmp_path, test)
    assert found.verdict is verdict
    assert found.results == "results/made-up"
    if "runs" not in test and "fails" not in test:
        assert found.estimate is not None
        assert found.p is not None
        assert (found.p_holm or 0) <= 0.05 or verdict is ClaimVerdict.UNDECIDED


def test_the_mean_over_iterations_is_another_cost_than_the_median(tmp_path: Path) -> None:
    def dear(trial: Trial) -> Trial:
        return with_metrics(trial, [replace(each, value=3.0 * each.typical_s) for each in trial.outcome.metrics])

    of = "{environment: plain, metric: 'mean:latency*'}"
    against = "{environment: plain, metric: latency*}"
    test = f"cost: {{of: {of}, against: {against}, above: 100%}}"
    mean = decided(tmp_path, test, changed(results(tmp_path), "plain", dear))
    assert mean.verdict is ClaimVerdict.REPRODUCED
    assert mean.why.startswith("mean of latency")


def with_metrics(trial: Trial, metrics: Iterable[Metric]) -> Trial:
    return replace(trial, outcome=replace(trial.outcome, metrics=tuple(metrics)))


LATE = Failed(reason=f"{NOT_ENDED} of 9 s")
ELSEWHERE = Invalid(reason="another network")


@pytest.mark.parametrize(
    ("test", "outcome", "verdict", "why"),
    [
        ("runs: [plain, slow], fails: [slower]", None, ClaimVerdict.REPRODUCED,
         "24 launches: those that should complete did, the others failed (it crashed)"),
        ("runs: [slower], fails: [slow]", None, ClaimVerdict.UNDECIDED,
         "slower, beside which others should fail, failed too: it crashed"),
        ("runs: [slower], fails: [slow], saying: crashed", None, ClaimVerdict.CONTRADICTED, ""),
        ("fails: [slower], saying: no sshd", None, ClaimVerdict.UNDECIDED,
         "slower failed for another reason than 'no sshd': it crashed"),
        ("fails: [slower]", LATE, ClaimVerdict.UNDECIDED,
         "slower did not fail by itself: it did not end within its time limit of 9 s"),
        ("fails: [slower]", ELSEWHERE, ClaimVerdict.UNDECIDED, ""),
        ("fails: [slower], saying: another network", ELSEWHERE, ClaimVerdict.REPRODUCED, ""),
        ("runs: [slower]", None, ClaimVerdict.CONTRADICTED, "slower: it crashed"),
        ("runs: [slower], saying: crashed", None, ClaimVerdict.CONTRADICTED, "slower: it crashed"),
        ("runs: [slower], saying: no port", None, ClaimVerdict.UNDECIDED,
         "slower failed for another reason than 'no port': it crashed"),
        ("rebuilt: routes, runs: [slower]", None, ClaimVerdict.UNDECIDED, ""),
    ],
)  # fmt: skip
def test_cells_that_must_fail_are_judged_by_why_they_do(
    tmp_path: Path, test: str, outcome: Outcome | None, verdict: ClaimVerdict, why: str
) -> None:
    def ended(trial: Trial) -> Trial:
        return replace(trial, outcome=outcome or Failed(reason="it crashed"))

    made = decided(tmp_path, test, changed(results(tmp_path), "slower", ended))
    assert made.verdict is verdict
    assert made.why == (why or made.why)


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        ("count: {of: slow, against: plain, above: 100}", ClaimVerdict.REPRODUCED),
        ("count: {of: slow, against: plain, above: 400}", ClaimVerdict.CONTRADICTED),
        ("count: {of: plain, below: 1}", ClaimVerdict.REPRODUCED),
        ("count: [{of: slow, above: 100, below: 500}, {of: plain, below: 1}]", ClaimVerdict.REPRODUCED),
    ],
)
def test_counters_are_compared_by_their_numbers(tmp_path: Path, test: str, verdict: ClaimVerdict) -> None:
    plan = plan_of(tmp_path, STUDY)
    dropping = Behaviour(counters={"qdisc_drops": 200.0, "TcpRetransSegs": 110.0})
    found = replace(results(tmp_path), plan=plan, trials=trials_of(plan, {"slow": dropping}))
    made = decided(tmp_path, f'metric: "counter:qdisc_drops+TcpRetransSegs", {test}', found)
    assert made.verdict is verdict
    assert made.counts
    assert made.estimate.value in {310.0, 0.0}


def test_figures_that_are_no_costs_are_found_by_their_label(tmp_path: Path) -> None:
    def losing(trial: Trial) -> Trial:
        lost = Figure(key="l", label="lost datagrams", value=25.0 if "slower" in trial.key.cell else 0.0)
        return replace(trial, outcome=replace(trial.outcome, figures=(lost,)))

    found = changed(results(tmp_path), "", losing)
    test = 'metric: "figure:lost*", count: {of: slower, against: plain, above: 20, below: 30}'
    assert decided(tmp_path, test, found).verdict is ClaimVerdict.REPRODUCED
    with pytest.raises(ResultsError, match="no figure for figure:gained"):
        decided(tmp_path, test.replace("lost*", "gained"), found)
    with pytest.raises(ResultsError, match="neither a counter nor a figure"):
        decided(tmp_path, test.replace("figure:lost*", "latency*"), found)


@pytest.mark.parametrize(
    ("bound", "verdict"), [("above: 50%", ClaimVerdict.REPRODUCED), ("below: 50%", ClaimVerdict.CONTRADICTED)]
)
def test_spreads_are_compared_as_costs_are(tmp_path: Path, bound: str, verdict: ClaimVerdict) -> None:
    def wider(trial: Trial) -> Trial:
        (metric,) = trial.outcome.metrics
        spread = (0.3 if "slow" in trial.key.cell else 0.1) * metric.value
        return with_metrics(trial, [replace(metric, p99_s=metric.median_s + spread)])

    test = f'metric: "spread:latency*", cost: {{of: slow, against: plain, {bound}}}'
    made = decided(tmp_path, test, changed(results(tmp_path), "", wider))
    assert made.verdict is verdict
    assert made.why.startswith("spread of latency")


@pytest.mark.parametrize(("which", "field"), [("mean", "turn_mean_s"), ("spread", "turn_spread_s")])
def test_in_turns_means_and_spreads_are_those_of_the_typical_turn(tmp_path: Path, which: str, field: str) -> None:
    def in_turns(trial: Trial) -> Trial:
        number = {field: (3.0 if "slow" in trial.key.cell else 1.0) * (1.0 + 0.001 * trial.key.round)}
        return with_metrics(trial, [replace(each, **number) for each in trial.outcome.metrics])

    measured = results(tmp_path)
    test = f'metric: "{which}:latency*", cost: {{of: slow, against: plain, above: 190%}}'
    assert decided(tmp_path, test, measured).verdict is not ClaimVerdict.REPRODUCED
    assert decided(tmp_path, test, changed(measured, "", in_turns)).verdict is ClaimVerdict.REPRODUCED


def test_equal_costs_are_shown_to_be_equal(tmp_path: Path) -> None:
    found = decided(tmp_path, "cost: {of: slow, against: plain, within: 3%}", results(tmp_path, slow=1.0))
    assert found.verdict is ClaimVerdict.REPRODUCED


def test_many_claims_need_more_evidence_each(tmp_path: Path) -> None:
    weak = results(tmp_path, slow=1.012)
    test = "test: {study: made-up, cost: {of: slow, against: plain, above: 0%}}"
    (alone,) = judged(tmp_path, claim(1, test), weak)
    assert alone.verdict is ClaimVerdict.REPRODUCED
    unclear = "test: {study: made-up, cost: {of: slow, against: plain, above: 1.2%}}"
    among = judged(tmp_path, claim(1, test) + "".join(claim(number, unclear) for number in range(2, 60)), weak)
    assert among[0].verdict is ClaimVerdict.UNDECIDED
    assert "not clear after correction for the number of claims" in among[0].why
    assert alone.p == among[0].p


@pytest.mark.parametrize(
    ("by", "measured", "verdict", "why"),
    [
        ("test: {study: made-up, cores: 8, cost: {of: slow, against: plain, above: 0%}}", {}, ClaimVerdict.UNDECIDED,
         "needs 8 cores, had 2"),
        ("test: {study: made-up, rebuilt: its routes, cost: {of: slow, against: plain, above: 0%}}", {},
         ClaimVerdict.UNDECIDED, "rebuilt: its routes"),
        ("test: {study: made-up, cost: {of: slow, against: plain, above: 0%}}", {"rounds": 4}, ClaimVerdict.UNDECIDED,
         "4 rounds have all its cells, 6 are needed"),
        ("test: {study: other, cost: {of: slow, against: plain, above: 0%}}", {}, ClaimVerdict.UNDECIDED,
         "no results of study other are given"),
        ("text: {verdict: contradicted, because: 1 is not 2}", {}, ClaimVerdict.CONTRADICTED, "by its own words: 1 is"),
        ("needs: {what: an adapter, study: verbs}", {}, ClaimVerdict.UNTESTABLE,
         "needs an adapter; study verbs tests it then"),
    ],
)  # fmt: skip
def test_what_is_undecided_says_why(
    tmp_path: Path, by: str, measured: Mapping[str, int], verdict: ClaimVerdict, why: str
) -> None:
    (found,) = judged(tmp_path, claim(1, by), results(tmp_path, **measured))  # type: ignore[arg-type]
    assert found.verdict is verdict
    assert why in found.why
    assert found.p is None


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("cost: {of: gone, against: plain, above: 0%}", "900-1: the results of study made-up have no cell for gone"),
        ("metric: bw*, cost: {of: slow, against: plain, above: 0%}", "have no metric for bw* / slow"),
        ("placement: 4n*, cost: {of: slow, against: plain, above: 0%}", "have no cell for slow / 4n*"),
        ("runs: [gone]", "have no cell for gone"),
    ],
)
def test_a_comparison_that_the_results_do_not_have_is_named(tmp_path: Path, test: str, message: str) -> None:
    with pytest.raises(ResultsError) as error:
        decided(tmp_path, test)
    assert message in str(error.value)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("  900-1: {place: '1', claim: so, kind: sign, here: 'yes'}", "give one of test, text and needs, not none"),
        ("  900-1: {place: '1', claim: so, kind: sgn, here: 'yes', needs: x}", "did you mean sign?"),
        ("  900-1: {place: '1', claim: so, kind: sign, here: 'yes', test: {study: s}}",
         "or costs and count, or runs and fails, not none"),
        ("  900-1: {place: '1', claim: so, kind: sign, here: 'yes', test: {study: s, cost: {of: a, against: b}}}",
         "say where the figure must be: above, below, within or beyond"),
        (2 * "  900-1: {place: '1', claim: so, kind: sign, here: 'yes', needs: x}\n", "this key is given twice"),
        ("  900-1: {place: '1', claim: so, kind: sign, here: 'yes', need: x}", "did you mean needs?"),
        ("  x: {place: '1', claim: so, kind: sign, here: 'yes', needs: x}", "is not allowed"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_has_its_line_and_column(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "900.yaml"
    file.write_text(HEAD + line + "\n")
    with pytest.raises(StudyError) as error:
        read_paper(file)
    assert message in str(error.value)
    assert "900.yaml:6:" in str(error.value) or "900.yaml:7:" in str(error.value)


def test_a_thin_run_decides_nothing_not_even_that_something_runs(tmp_path: Path) -> None:
    whole = results(tmp_path)
    thin = replace(whole, plan=replace(whole.plan, study=replace(whole.plan.study, thin=True)))
    ran, undecided = (decided(tmp_path, "runs: [plain]", each) for each in (whole, thin))
    assert ran.verdict is ClaimVerdict.REPRODUCED
    assert undecided.verdict is ClaimVerdict.UNDECIDED
    assert "is a thin run" in undecided.why
