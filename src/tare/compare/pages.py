"""Write a comparison or a history as one HTML page that opens offline, without scripts."""

from __future__ import annotations

from collections.abc import Iterator

from tare.compare import wording
from tare.compare.compare import Across, JudgedRatio, Pair
from tare.compare.drawing import chart
from tare.compare.history import CellHistory, History
from tare.compare.kinds import KINDS
from tare.report import embed, units
from tare.report.jinja import templates
from tare.report.plots import bars
from tare.report.plots.svg import svg
from tare.report.verdicts import VERDICT_STYLES


def compare_page(across: Across) -> str:
    """Return a comparison as an HTML document."""
    return _render(
        "compare.html.j2",
        title="Comparison of results",
        headings=[wording.heading(one, label) for one, label in zip(across.readings, across.labels, strict=True)],
        warnings=[f"{one.path}: {text}" for one in across.readings for text in one.caveats],
        labels=across.labels,
        differences=[(each, wording.moved(each.kind)) for each in across.differences],
        pairs=[
            (across.labels[pair.first], across.labels[pair.second], list(_tables(pair, across)),
             list(wording.causes(pair)), wording.notes(pair, across))
            for pair in across.pairs
        ],
        kinds=[(name, kind, wording.moved(name)) for name, kind in KINDS.items()],
        confidence=f"{across.confidence * 100:g}",
        margin=units.percent(across.margin, sign=False),
        one_session=wording.ONE_SESSION,
    )  # fmt: skip


def history_page(history: History) -> str:
    """Return a history as an HTML document."""
    return _render(
        "history.html.j2",
        title="History of results",
        folder=str(history.folder),
        count=len(history.readings),
        warnings=[*history.left_out, *(f"{each.path}: {text}" for each in history.readings for text in each.caveats)],
        series=[_series(number, series, history) for number, series in enumerate(history.series)],
        method=wording.history_method(history),
    )


def _series(place: int, series: CellHistory, history: History) -> dict[str, object]:
    name = wording.series_name(series)
    steps = [(step.ratio.value > 0, wording.step(step, series, history)) for step in series.steps]
    found = "; ".join(sentence for _, sentence in steps) or wording.no_change(series)
    return {
        "title": name,
        "plot": svg(
            chart(series, history), f"series-{place}", f"{name}, over {len(series.points)} results", description=found
        ),
        "steps": steps,
        "no_change": wording.no_change(series),
        "rows": list(wording.result_rows(series, history)),
    }


def _tables(pair: Pair, across: Across) -> Iterator[dict[str, object]]:
    """Yield the changes of one pair by group: environment, whether it is the baseline, metric, and cells."""
    for title, changes in pair.by_group():
        costs, overheads = (
            [each for each in column if each] for column in zip(*((c.cost, c.overhead) for c in changes), strict=True)
        )
        scales = [bars.Scale.of([each.ratio for each in column], across.margin) for column in (costs, overheads)]
        rows = [
            (
                change.place.environment,
                change.is_baseline,
                change.label,
                _cell(change.cost, scales[0], across),
                _cell(change.overhead, scales[1], across),
            )
            for change in changes
        ]
        yield {"title": title, "axes": [bars.axis(scale) for scale in scales], "rows": rows}


def _cell(judged: JudgedRatio | None, scale: bars.Scale, across: Across) -> dict[str, object] | None:
    """Return a verdict as the page shows it."""
    if judged is None:
        return None
    look = VERDICT_STYLES[judged.verdict]
    p_values = f"{wording.p_value(judged.p_value)}; adjusted: {wording.p_value(judged.p_holm)}"
    return {
        "css": look.css,
        "symbol": wording.symbol(judged),
        "word": judged.word,
        "ratio": wording.ratio(judged),
        "values": f"{judged.first} → {judged.second}, n = {judged.n[0]} and {judged.n[1]}",
        "title": "; ".join(filter(None, (p_values, judged.reason))),
        "bar": bars.bar(scale, judged.ratio, judged.simultaneous, None, across.margin),
    }


def _render(template: str, **values: object) -> str:
    styles = [embed.asset("tare.report", "templates/report.css"), embed.asset("tare.compare", "templates/across.css")]
    policy = embed.policy(scripts=(), styles=styles)
    return templates("tare.compare").get_template(template).render(styles=styles, policy=policy, **values)
