"""Return a comparison of results as JSON data. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tare.compare import wording
from tare.compare.compare import Across, CellChange, JudgedRatio, Pair
from tare.compare.kinds import KINDS, in_words
from tare.compare.reading import ComparedResults
from tare.model import Estimate

FORMAT = 1


def compare_data(across: Across) -> dict[str, Any]:
    """Return a comparison as JSON data: results, differences, and for each pair its changes.

    Ratios are of the other result to the first, 1 if equal; for rates too, a ratio above 1 is slower.
    """
    return {
        "format": FORMAT,
        "margin": across.margin,
        "confidence": across.confidence,
        "expected": sorted(across.expected),
        "results": [_result(one, label) for one, label in zip(across.readings, across.labels, strict=True)],
        "differences": [
            {
                "kind": each.kind,
                "could_move": in_words(KINDS[each.kind].moves),
                "fact": each.name,
                "values": dict(zip(across.labels, each.values, strict=True)),
                "environments": sorted(each.environments),
            }
            for each in across.differences
        ],
        "pairs": [_pair(pair, across) for pair in across.pairs],
    }


def _result(reading: ComparedResults, label: str) -> dict[str, Any]:
    return {
        "label": label,
        "path": str(reading.path),
        "study": reading.name,
        "baseline": reading.baseline,
        "began_unix_s": reading.began_unix_s,
        "rounds": reading.rounds,
        "warnings": list(reading.caveats),
    }


def _pair(pair: Pair, across: Across) -> dict[str, Any]:
    return {
        "first": across.labels[pair.first],
        "second": across.labels[pair.second],
        "changes": [_change(change) for change in pair.changes],
        "notes": wording.notes(pair, across),
    }


def _change(change: CellChange) -> dict[str, Any]:
    return {
        **asdict(change.place),
        "label": change.label,
        "is_baseline": change.is_baseline,
        "cost": _judged(change.cost),
        "overhead": _judged(change.overhead),
        "could_be": list(dict.fromkeys(each.kind for each in change.could)),
    }


def _judged(judged: JudgedRatio | None) -> dict[str, Any] | None:
    if judged is None:
        return None
    return {
        "verdict": judged.word,
        "within": judged.within,
        "reason": judged.reason,
        "ratio": ratio_data(judged.ratio),
        "adjusted_interval": ratio_data(judged.simultaneous),
        "p": judged.p_value,
        "p_holm": judged.p_holm,
        "first": judged.first,
        "second": judged.second,
        "n": list(judged.n),
    }


def ratio_data(estimate: Estimate) -> dict[str, float]:
    """Return a ratio, given less 1, and its interval; JSON cannot represent an infinite bound."""
    return {"value": 1 + estimate.value, "low": 1 + estimate.low, "high": min(1 + estimate.high, 1e300)}
