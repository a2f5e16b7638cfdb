"""An adapter of a program that does not exist, for tests of what runs and reads such programs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tare.model import Figure, Metric, MetricInfo, MetricKind, Placement
from tare.workloads.output import OutputError
from tare.workloads.programs import Reading


class ExampleAdapter:
    """Read `rate: X Mop/s` and `checked: yes`; it runs on two ranks or more."""

    name = "example"
    describes = "a program that does not exist"
    measures = "operations a second"
    timer = "none"
    synchronisation = "none"
    reduction = "maximum over ranks"
    versions = "1 and 2"
    ranks = "any"
    places: tuple[str, ...] = ()
    brought_by = "apt-get install example"

    def executable(self, arguments: tuple[str, ...]) -> str:
        return "example"

    def argv(self, arguments: tuple[str, ...], program: str = "") -> tuple[str, ...]:
        return (program or "example", *arguments)

    def environment(self, arguments: tuple[str, ...]) -> Mapping[str, str]:
        return {"THREADS": "1"}

    def metrics(self, arguments: tuple[str, ...], placement: Placement) -> tuple[MetricInfo, ...]:
        return (
            MetricInfo(
                key="rate",
                label="rate",
                kind=MetricKind.RATE,
                statistic="one figure",
                group="",
                done_per_sample=1e6,
                rate_unit="op/s",
            ),
        )

    def read(self, text: str, arguments: tuple[str, ...]) -> Reading:
        found = re.search(r"^rate: (\S+) Mop/s$", text, re.MULTILINE)
        if found is None:
            raise OutputError("the line `rate:` is missing")
        metric = Metric(
            key="rate",
            label="rate",
            kind=MetricKind.RATE,
            value=1 / float(found[1]),
            done_per_sample=1e6,
            rate_unit="op/s",
        )
        wrong = () if "checked: yes" in text else ("example (checked: no)",)
        return Reading(metrics=(metric,), figures=(Figure(key="n", label="n", value=3.0),), wrong=wrong)

    def refuse(self, arguments: tuple[str, ...], placement: Placement) -> str | None:
        return None if placement.ranks > 1 else "example needs two ranks or more, not 1"

    def expected_s(self, arguments: tuple[str, ...], placement: Placement) -> float:
        return 7.0
