"""A small study, its plan, and trials of it, to be stored and read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tare import model
from tare.model import Completed, Environment, Repetition, Trial, TrialKey
from tare.study.plan.cells import expand

STUDY = model.Study(
    name="s",
    cluster="lab",
    lab=model.LabSpec(),
    baseline="bare",
    environments=(
        Environment(name="bare", runtime="bare", network="host"),
        Environment(name="docker", runtime="docker", network="host", image="default"),
    ),
    placements=(model.Placement(),),
    workloads=(model.Workload(name="w", kernels=(model.KernelSpec(kernel="barrier"),)),),
    repetition=Repetition(rounds=3, max_rounds=3, blocks_per_round=2),
)
PLAN = expand(STUDY, lambda _e, _p: None)
SAMPLES: dict[str, NDArray[Any]] = {"barrier": np.linspace(0, 1, 50), "file": np.arange(3)}


def trial(key: TrialKey, outcome: model.Outcome | None = None) -> Trial:
    return Trial(key=key, position=0, started_unix_s=1.5, elapsed_s=0.1, outcome=outcome or Completed(metrics=()))
