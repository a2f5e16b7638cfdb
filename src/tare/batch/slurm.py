"""`slurm`: an array of jobs, one at a time, each of which measures a share of the rounds in an allocation of its own.

A job that its time limit or a preemption ends is put back into the queue and resumes the study there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tare.batch.job import UNFINISHED, BatchJob, BatchSystem, clock, head, quoted

BODY: Final = """\
trials={trials}
before=$(wc -c 2> /dev/null < "$trials" || echo 0)
{command} &
run=$!
time_is_up=
trap 'time_is_up=1; kill -TERM $run' USR1
trap 'kill -TERM $run' TERM INT
wait $run
status=$?
while kill -0 $run 2> /dev/null; do wait $run; status=$?; done
if [ "$time_is_up" ] || [ $status -eq {unfinished} ]; then
    after=$(wc -c 2> /dev/null < "$trials" || echo 0)
    if [ "$after" -gt "$before" ]; then
        echo "tare: the time limit ended this job; it is queued again and will resume"
        exec scontrol requeue "$SLURM_JOB_ID"
    fi
    echo "tare: the time limit ended this job before it measured anything: submit the study again with a longer --time"
fi
exit $status
"""


class Slurm(BatchSystem):
    """Submit with sbatch."""

    name = "slurm"
    program = "sbatch"
    package = "slurm-client"

    @property
    def tried(self) -> bool:
        return True

    def script(self, job: BatchJob) -> str:
        options = [
            f"--job-name=tare-{job.name}",
            f"--nodes={job.nodes}",
            "--exclusive",
            f"--time={clock(job.time_s)}",
            f"--array=1-{job.allocations}%1",
            "--requeue",
            "--open-mode=append",
            f"--signal=B:USR1@{job.warning_s}",
            f"--output={job.folder}/%A_%a.log",
            f"--chdir={job.workdir}",
        ]
        named = ("partition", "account", "qos", "constraint", "reservation")
        options += [f"--{name}={value}" for name in named if (value := getattr(job, name))]
        body = BODY.format(
            trials=quoted((str(job.results / "trials.jsonl"),)), command=quoted(job.command), unfinished=UNFINISHED
        )
        return "\n".join(head(job, "#SBATCH", [*options, *job.options])) + "\n" + body

    def submit(self, script: Path) -> tuple[str, ...]:
        return (self.program, "--parsable", str(script))

    def number(self, printed: str) -> str:
        return printed.strip().splitlines()[-1].split(";")[0] if printed.strip() else ""
