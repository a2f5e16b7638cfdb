"""`flux`: the Flux framework. The nodes of a job are reached by ssh. Written from the manuals; never run."""

from __future__ import annotations

from pathlib import Path

from tare.cli.batch.job import BatchJob, BatchSystem, head, quoted, worded


class Flux(BatchSystem):
    """Submit with `flux batch`; it has no arrays, so one job measures all rounds."""

    name = "flux"
    program = "flux"
    has_arrays = False

    def script(self, job: BatchJob) -> str:
        options = [
            f"--job-name=tare-{job.name}",
            f"--nodes={job.nodes}",
            "--exclusive",
            f"--time-limit={max(1, -(-int(job.time_s) // 60))}m",
            f"--output={job.folder}/{{{{id}}}}.log",
            f"--cwd={job.workdir}",
        ]
        options += [f"--queue={job.asked.partition}"] if job.asked.partition else []
        options += [f"--bank={job.asked.account}"] if job.asked.account else []
        listed = "flux resource list --states=all --no-header --format='{nodelist}'"
        hosts = f"$({listed} | flux hostlist --expand --delimiter=, -)"
        body = [f'exec {quoted(job.command)} --hosts "{hosts}"', ""]
        return "\n".join([*head(job, "# flux:", [*worded(options), *job.asked.options]), *body])

    def submit(self, script: Path) -> tuple[str, ...]:
        return (self.program, "batch", str(script))
