"""The data model of the tool: frozen, keyword-only dataclasses, no I/O.

Units are in the names (`_s` seconds, `_bytes` bytes). Internal values are in seconds and bytes; `tare.report` formats
them. An outcome is `Completed | Failed | Invalid | Unavailable | Interrupted`, never a zero and never `None`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tare.model.choices import (
        Binding,
        Caches,
        Control,
        Launching,
        MapBy,
        MetricKind,
        RankOrder,
        Role,
        Share,
        Sides,
        Tracking,
    )
    from tare.model.study import (
        Cell,
        Environment,
        KernelSpec,
        KubernetesSpec,
        LabSpec,
        Link,
        NodeCommand,
        Placement,
        PlacementChange,
        Plan,
        Published,
        Repetition,
        SlurmSpec,
        Study,
        Workload,
    )
    from tare.model.summary import (
        Cause,
        Comparison,
        Estimate,
        FailureRate,
        Finding,
        Isolation,
        MeanCost,
        MetricInfo,
        Modes,
        Pattern,
        PatternKind,
        ProofGap,
        Repeats,
        StateEffect,
        Summary,
        Verdict,
    )
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
    "Cause",
    "Cell",
    "Comparison",
    "Completed",
    "Control",
    "Environment",
    "Estimate",
    "Failed",
    "FailureRate",
    "Figure",
    "Finding",
    "InterfaceTraffic",
    "Interrupted",
    "Invalid",
    "Isolation",
    "KernelSpec",
    "KubernetesSpec",
    "LabSpec",
    "Launching",
    "Link",
    "MapBy",
    "MeanCost",
    "Metric",
    "MetricInfo",
    "MetricKind",
    "Modes",
    "NodeCommand",
    "Outcome",
    "Pattern",
    "PatternKind",
    "Placement",
    "PlacementChange",
    "Plan",
    "ProofGap",
    "Published",
    "RankOrder",
    "RankPlace",
    "Repeats",
    "Repetition",
    "Role",
    "Share",
    "Sides",
    "SlurmSpec",
    "StateEffect",
    "Study",
    "Summary",
    "Tracking",
    "Trial",
    "TrialKey",
    "Unavailable",
    "Verdict",
    "Workload",
]

PARTS: Final = ("choices", "study", "trial", "summary")
"""The modules of the types above. Each may import those before it."""


def __getattr__(name: str) -> Any:
    """Import the module of a type when the type is first used: a node's service needs few of them (PEP 562)."""
    if name in __all__:
        for part in PARTS:
            module = import_module(f"tare.model.{part}")
            if name in vars(module):
                globals()[name] = vars(module)[name]
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
