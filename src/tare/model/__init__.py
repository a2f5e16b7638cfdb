"""The data that the tool passes around: frozen, keyword-only, without I/O.

Units are in the names (`_s` seconds, `_bytes` bytes); everything inside is in seconds and bytes and is made
readable only in `tare.report`. An outcome is `Completed | Failed | Invalid | Unavailable | Interrupted`, never a zero
and never `None`.
"""

from __future__ import annotations

from tare.model.study import (
    Binding,
    Caches,
    Cell,
    Control,
    Environment,
    KernelSpec,
    LabSpec,
    Launching,
    MapBy,
    MetricKind,
    Placement,
    Plan,
    Published,
    Repetition,
    Role,
    Share,
    Sides,
    Study,
    Workload,
)
from tare.model.summary import Comparison, Estimate, Finding, Isolation, MetricInfo, Summary, Verdict
from tare.model.trial import (
    Completed,
    Failed,
    Figure,
    InterfaceTraffic,
    Interrupted,
    Invalid,
    Metric,
    Outcome,
    RankPlace,
    Trial,
    TrialKey,
    Unavailable,
)

__all__ = [
    "Binding",
    "Caches",
    "Cell",
    "Comparison",
    "Completed",
    "Control",
    "Environment",
    "Estimate",
    "Failed",
    "Figure",
    "Finding",
    "InterfaceTraffic",
    "Interrupted",
    "Invalid",
    "Isolation",
    "KernelSpec",
    "LabSpec",
    "Launching",
    "MapBy",
    "Metric",
    "MetricInfo",
    "MetricKind",
    "Outcome",
    "Placement",
    "Plan",
    "Published",
    "RankPlace",
    "Repetition",
    "Role",
    "Share",
    "Sides",
    "Study",
    "Summary",
    "Trial",
    "TrialKey",
    "Unavailable",
    "Verdict",
    "Workload",
]
