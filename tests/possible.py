"""Say what is impossible in an explanation: `python -m possible FOLDER...` (in tests/) prints it of stored results."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tare.cli.afterwards.explain_command import explain_results
from tare.cli.afterwards.options import ExplainOptions

ROUNDING = 1e-9


def explanation_of(folder: Path) -> Mapping[str, Any]:
    """Return what `tare explain --json` prints about a results folder."""
    with redirect_stdout(io.StringIO()) as printed:
        explain_results(ExplainOptions(results=folder, as_json=True))
    return json.loads(printed.getvalue())  # type: ignore[no-any-return]


def impossible(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield each share outside 0 to 1, sum that is not the cost, and cause that its control refutes."""
    for cost in document["costs"]:
        where = f"{cost['group']}, {cost['environment']}, {cost['metric']}"
        yield from (f"{where}: {what}" for what in _of_cost(cost))


def _of_cost(cost: Mapping[str, Any]) -> Iterator[str]:
    suspects = {each["name"]: each for each in cost["suspects"]}
    shares = {name: each["share"] for name, each in suspects.items() if each["share"] is not None}
    if cost["not_explained"] is not None:
        shares["not explained"] = cost["not_explained"]
        if abs(sum(each["value"] for each in shares.values()) - 1) > ROUNDING:
            yield f"its shares are {sum(each['value'] for each in shares.values())} together"
        if sum(each["low"] for each in shares.values()) > 1 + ROUNDING:
            yield "the lower ends of its shares are more than the cost"
    for name, share in shares.items():
        if not 0 <= share["low"] <= share["value"] <= share["high"] <= 1:
            yield f"{name} has the share {share['value']} [{share['low']}, {share['high']}]"
    for name, suspect in suspects.items():
        if suspect["proven"] and not (suspect["share"] and suspect["share"]["low"] > 0):
            yield f"{name} is proven with the share {suspect['share']}"
        without, overhead = suspect["without"], cost["overhead"]
        if suspect["proven"] and without and overhead and without["low"] > overhead["high"]:
            yield f"{name} is proven, and the cell costs more without it"
    for name in {*cost["refuted"]} & {*suspects, cost["cause"]}:
        yield f"{name} is ruled out, and named"
    if cost["cause"] is not None and not suspects[cost["cause"]]["proven"]:
        yield f"{cost['cause']} is named, and not proven"
    if not all(map(math.isfinite, cost["added_s"].values())):
        yield f"it added {cost['added_s']}"


if __name__ == "__main__":
    documents = {name: explanation_of(Path(name)) for name in sys.argv[1:]}
    wrong = [f"{name}: {what}" for name, document in documents.items() for what in impossible(document)]
    print(*wrong, f"{sum(len(each['costs']) for each in documents.values())} costs, {len(wrong)} impossible", sep="\n")
    sys.exit(bool(wrong))
