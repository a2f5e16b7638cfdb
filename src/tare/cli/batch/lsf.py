"""`lsf`: IBM Spectrum LSF. The nodes of a job are reached by ssh. Written from the manuals; never run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tare.cli.batch.job import BatchJob, BatchSystem, clock, head, quoted

NUMBER: Final = re.compile(r"Job <(\d+)>")


class Lsf(BatchSystem):
    """Submit with bsub."""

    name = "lsf"
    program = "bsub"

    def script(self, job: BatchJob) -> str:
        options = [
            f'-J "tare-{job.name}[1-{job.allocations}]%1"',
            f"-nnodes {job.nodes}",
            "-x",
            f"-W {clock(job.time_s)[:-3]}",
            "-r",
            f"-o {job.folder}/%J_%I.log",
        ]
        options += [f"-q {job.asked.partition}"] if job.asked.partition else []
        options += [f"-P {job.asked.account}"] if job.asked.account else []
        # the first name may be that of the node on which the script runs, not one of the job's
        command = f'exec {quoted(job.command)} --hosts "$(sort -u "$LSB_DJOB_HOSTFILE" | paste -sd,)"'
        body = [f"cd {quoted((str(job.workdir),))} || exit", command, ""]
        return "\n".join([*head(job, "#BSUB", [*options, *job.asked.options]), *body])

    def submit(self, script: Path) -> tuple[str, ...]:
        return ("/bin/sh", "-c", f"exec {self.program} < {quoted((str(script),))}")

    def number(self, printed: str) -> str:
        found = NUMBER.search(printed)
        return found.group(1) if found else ""
