"""`pbs`: PBS Pro and OpenPBS. The nodes of a job are reached by ssh. Written from the manuals; never run."""

from __future__ import annotations

from pathlib import Path

from tare.cli.batch.job import BatchJob, BatchSystem, clock, head, quoted


class Pbs(BatchSystem):
    """Submit with qsub; the jobs of a study follow each other, because all write to one results folder."""

    name = "pbs"
    program = "qsub"

    def script(self, job: BatchJob) -> str:
        options = [
            f"-N tare-{job.name}"[:18],
            f"-l select={job.nodes}",
            "-l place=scatter:excl",
            f"-l walltime={clock(job.time_s)}",
            "-r y",
            "-j oe",
            f"-o {job.folder}/",
        ]
        options += [f"-q {job.asked.partition}"] if job.asked.partition else []
        options += [f"-A {job.asked.account}"] if job.asked.account else []
        options += [f"-J 1-{job.allocations}%1"] if job.allocations > 1 else []
        command = f'exec {quoted(job.command)} --hosts "$(sort -u "$PBS_NODEFILE" | paste -sd,)"'
        body = [f"cd {quoted((str(job.workdir),))} || exit", command, ""]
        return "\n".join([*head(job, "#PBS", [*options, *job.asked.options]), *body])

    def submit(self, script: Path) -> tuple[str, ...]:
        return (self.program, str(script))
