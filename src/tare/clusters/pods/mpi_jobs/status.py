"""Read the state of an MPIJob from its object. Pure; fields that the operator has not written yet are no error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tare.clusters.pods.objects import condition_of
from tare.model.text import printable

LONGEST: Final = 300
JOB_NAME: Final = "training.kubeflow.org/job-name"
JOB_ROLE: Final = "training.kubeflow.org/job-role"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The state of an MPIJob; `why` is the reason of a failure, in the operator's words."""

    succeeded: bool = False
    failed: bool = False
    why: str = ""

    @property
    def has_ended(self) -> bool:
        """Return whether nothing more will happen."""
        return self.succeeded or self.failed


def state_of(job: Mapping[str, Any]) -> JobState:
    """Return the state of an MPIJob."""
    failed = condition_of(job, "Failed")
    if failed.get("status") == "True":
        return JobState(failed=True, why=_why(failed))
    return JobState(succeeded=condition_of(job, "Succeeded").get("status") == "True")


def _why(condition: Mapping[str, Any]) -> str:
    said = [printable(str(condition.get(key) or ""))[:LONGEST] for key in ("reason", "message")]
    return ": ".join(text for text in said if text).rstrip(": ")


def selector(name: str, role: str) -> str:
    """Return the selector of the pods of a job that have a role: `worker` or `launcher`."""
    return f"{JOB_NAME}={name},{JOB_ROLE}={role}"
