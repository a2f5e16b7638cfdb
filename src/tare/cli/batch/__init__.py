"""Submit studies to batch systems: one file per system, one entry in `SYSTEMS`.

What comes in is a `BatchJob`, what goes out the text of a script. Only Slurm gives a study its nodes through steps of
the job (cluster slurm); the jobs of the others run the study on their hosts by ssh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tare.cli.batch.flux import Flux
from tare.cli.batch.job import BatchJob, BatchSystem
from tare.cli.batch.lsf import Lsf
from tare.cli.batch.pbs import Pbs
from tare.cli.batch.slurm import Slurm

__all__ = ["SYSTEMS", "BatchJob", "BatchSystem"]

SYSTEMS: Final[Mapping[str, BatchSystem]] = {
    "slurm": Slurm(),
    "pbs": Pbs(),
    "lsf": Lsf(),
    "flux": Flux(),
}
