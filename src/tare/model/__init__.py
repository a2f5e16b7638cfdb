"""The data model of the tool: frozen, keyword-only dataclasses, no I/O.

Units are in the names (`_s` seconds, `_bytes` bytes). Internal values are in seconds and bytes; `tare.report` formats
them. An outcome is `Completed | Failed | Invalid | Unavailable | Interrupted`, never a zero and never `None`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tare.model.choices import Binding as Binding
    from tare.model.choices import Caches as Caches
    from tare.model.choices import Control as Control
    from tare.model.choices import Launching as Launching
    from tare.model.choices import MapBy as MapBy
    from tare.model.choices import MetricKind as MetricKind
    from tare.model.choices import RankOrder as RankOrder
    from tare.model.choices import Role as Role
    from tare.model.choices import Share as Share
    from tare.model.choices import Sides as Sides
    from tare.model.choices import Tracking as Tracking
    from tare.model.study import Cell as Cell
    from tare.model.study import Environment as Environment
    from tare.model.study import KernelSpec as KernelSpec
    from tare.model.study import KubernetesSpec as KubernetesSpec
    from tare.model.study import LabSpec as LabSpec
    from tare.model.study import Link as Link
    from tare.model.study import NodeCommand as NodeCommand
    from tare.model.study import Placement as Placement
    from tare.model.study import PlacementChange as PlacementChange
    from tare.model.study import Plan as Plan
    from tare.model.study import Published as Published
    from tare.model.study import Repetition as Repetition
    from tare.model.study import SlurmSpec as SlurmSpec
    from tare.model.study import Study as Study
    from tare.model.study import Workload as Workload
    from tare.model.summary import Cause as Cause
    from tare.model.summary import Comparison as Comparison
    from tare.model.summary import Estimate as Estimate
    from tare.model.summary import FailureRate as FailureRate
    from tare.model.summary import Finding as Finding
    from tare.model.summary import Isolation as Isolation
    from tare.model.summary import MeanCost as MeanCost
    from tare.model.summary import MetricInfo as MetricInfo
    from tare.model.summary import Modes as Modes
    from tare.model.summary import Pattern as Pattern
    from tare.model.summary import PatternKind as PatternKind
    from tare.model.summary import ProofGap as ProofGap
    from tare.model.summary import Repeats as Repeats
    from tare.model.summary import StateEffect as StateEffect
    from tare.model.summary import Summary as Summary
    from tare.model.summary import Verdict as Verdict
    from tare.model.trial import Completed as Completed
    from tare.model.trial import Failed as Failed
    from tare.model.trial import Figure as Figure
    from tare.model.trial import InterfaceTraffic as InterfaceTraffic
    from tare.model.trial import Interrupted as Interrupted
    from tare.model.trial import Invalid as Invalid
    from tare.model.trial import Metric as Metric
    from tare.model.trial import Outcome as Outcome
    from tare.model.trial import RankPlace as RankPlace
    from tare.model.trial import Trial as Trial
    from tare.model.trial import TrialKey as TrialKey
    from tare.model.trial import Unavailable as Unavailable
    from tare.model.trial import Work as Work

PARTS: Final = ("choices", "study", "trial", "summary")
"""The modules of the types above. Each may import those before it."""


def __getattr__(name: str) -> Any:
    """Import the module of a type when the type is first used: a node's service needs few of them (PEP 562)."""
    for part in () if name.startswith("_") else PARTS:
        module = import_module(f"tare.model.{part}")
        if name in vars(module):
            globals()[name] = vars(module)[name]
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
