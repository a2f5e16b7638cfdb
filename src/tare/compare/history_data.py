"""Return a history as JSON data. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tare.compare.compare_data import ratio_data
from tare.compare.history import CellHistory, History, differing_kinds
from tare.compare.reading import exp_of
from tare.model import Estimate

FORMAT = 1


def history_data(history: History) -> dict[str, Any]:
    """Return a history as JSON data. Values are seconds for a cost, and a ratio to the baseline for an overhead."""
    kinds = differing_kinds(history.readings)
    return {
        "format": FORMAT,
        "folder": str(history.folder),
        "alpha": history.alpha,
        "margin": history.margin,
        "left_out": list(history.left_out),
        "results": [
            {
                "path": str(reading.path),
                "study": reading.name,
                "began_unix_s": reading.began_unix_s,
                "rounds": reading.rounds,
                "differs_in": list(differing),
                "warnings": list(reading.caveats),
            }
            for reading, differing in zip(history.readings, kinds, strict=True)
        ],
        "series": [_series(series) for series in history.series],
    }


def _series(series: CellHistory) -> dict[str, Any]:
    return {
        **asdict(series.place),
        "label": series.label,
        "what": series.what,
        "points": [{"result": point.result, **_exp(point.log), "n": point.log.n} for point in series.points],
        "levels": [{"first": first, "end": end, "value": exp_of(mean)} for first, end, mean in series.levels],
        "changes": [
            {
                "at": step.at,
                "result": series.points[step.at].result,
                "ratio": ratio_data(step.ratio),
                "p": step.p_value,
                "differs_in": list(dict.fromkeys(each.kind for each in step.differences)),
            }
            for step in series.steps
        ],
    }


def _exp(estimate: Estimate) -> dict[str, float]:
    return {"value": exp_of(estimate.value), "low": exp_of(estimate.low), "high": exp_of(estimate.high)}
