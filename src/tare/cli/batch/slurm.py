"""`slurm`: an array of jobs, one at a time, each of which measures a share of the rounds in an allocation of its own.

A job that its time limit or a preemption ends is put back into the queue and resumes the study there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tare.cli.batch.job import BatchJob, BatchSystem, clock, head, quoted, worded
from tare.errors import EXIT_INCONCLUSIVE, EXIT_OVER_LIMIT, EXIT_UNFINISHED

REASONS: Final = {
    "Resources": "it waits for nodes that are free (Resources)",
    "Priority": "other jobs are before it (Priority)",
    "ReqNodeNotAvail": "nodes that it needs are down or reserved (ReqNodeNotAvail): see `sinfo -R`",
    "Nodes required for job are DOWN": "nodes that it needs are down, drained or reserved: see `sinfo -R`",
    "PartitionConfig": "it asks for more nodes or time than the partition allows (PartitionConfig): see `sinfo`",
    "PartitionNodeLimit": "it asks for more nodes than the partition gives a job (PartitionNodeLimit)",
    "PartitionTimeLimit": "its time limit is longer than the partition allows (PartitionTimeLimit): set --time",
    "PartitionDown": "the partition is down (PartitionDown)",
    "PartitionInactive": "the partition is inactive (PartitionInactive)",
    "AssocGrpCPUMinutesLimit": "the account has used up its time (AssocGrpCPUMinutesLimit)",
    "QOSMaxJobsPerUserLimit": "you have as many jobs as the QOS allows (QOSMaxJobsPerUserLimit)",
    "JobHeldUser": "you hold it (JobHeldUser): scontrol release JOB",
    "JobHeldAdmin": "an administrator holds it (JobHeldAdmin)",
    "Dependency": "it waits for another job (Dependency)",
    "JobArrayTaskLimit": "another allocation of this study runs (JobArrayTaskLimit)",
    "BeginTime": "its start time is still to come, as after it was put back into the queue (BeginTime)",
}
"""What squeue's reasons mean, by their beginnings; the others are shown as they are."""
REFUSALS: Final = (
    ("invalid partition", "there is no such partition: `sinfo` lists them; set --partition"),
    ("invalid account", "this account or partition is not yours: ask your site which to use, and set --account"),
    ("invalid qos", "this quality of service is not yours: set --qos"),
    ("invalid feature", "no node has these features: `sinfo -o '%f %N'` lists them; set --constraint"),
    ("node count specification invalid", "the partition does not have so many nodes for one job"),
    ("more processors requested than permitted", "the partition does not have so many nodes for one job"),
    ("group not permitted", "your group may not use this partition: set --partition"),
    ("partition not available", "the partition is closed: `sinfo` shows which are open; set --partition"),
    ("reservation is invalid", "there is no such reservation: `scontrol show reservation` lists them"),
    ("requested node configuration is not available", "no nodes like these are in the partition"),
    ("time limit", "the time limit is longer than the site allows: set --time"),
)
"""What sbatch's errors mean, by a part of them in small letters."""
MOST_RESTARTS: Final = 3
"""How often a job is requeued after its time limit. A job that is requeued repeats the interrupted round."""
BODY: Final = """\
# the number of an array is that of its last job too, and names all of them
job=${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}${{SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}}
trials={trials}
measured() {{
    sed '/"type":"Interrupted"/d' "$trials" 2> /dev/null | wc -l
}}
field() {{
    scontrol --oneliner show job "$job" 2> /dev/null | tr ' ' '\\n' | sed -n "s/^$1=//p"
}}
requeue() {{
    echo "tare: $1; this job is queued again and will resume"
    exec scontrol requeue "$job"
}}
before=$(measured)
preempted=$(field PreemptTime)
{command} &
run=$!
time_is_up=
trap 'time_is_up=1; kill -TERM $run' USR1
trap 'kill -TERM $run' TERM INT
wait $run
status=$?
while kill -0 $run 2> /dev/null; do wait $run; status=$?; done
wait $run # it may have ended while a signal was handled: status is that of the signal then
ended=$?
[ $ended -eq 127 ] || status=$ended
[ "$(field JobState)" != CANCELLED ] || exit $status
case $(field PreemptTime) in
"" | None | "$preempted") ;;
*) requeue "another job takes the nodes" ;;
esac
if [ "$time_is_up" ] || [ $status -eq {unfinished} ]; then
    if [ "$(measured)" -gt "$before" ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {restarts} ]; then
        requeue "the time limit has ended this allocation"
    fi
    echo "tare: a round does not fit into the time limit: submit the study again with a longer --time"
fi
case $status in
{results}) exit 0 ;; # the study's results, which the report states: nothing failed
*) exit $status ;;
esac
"""


class Slurm(BatchSystem):
    """Submit with sbatch."""

    name = "slurm"
    program = "sbatch"
    cancel = "scancel"
    pending = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
    tried = True

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
        options += [f"--{name}={value}" for name in named if (value := getattr(job.asked, name))]
        body = BODY.format(
            trials=quoted((str(job.results / "trials.jsonl"),)),
            command=quoted(job.command),
            unfinished=EXIT_UNFINISHED,
            restarts=MOST_RESTARTS,
            results=f"{EXIT_OVER_LIMIT} | {EXIT_INCONCLUSIVE}",
        )
        return "\n".join(head(job, "#SBATCH", [*worded(options), *job.asked.options])) + "\n" + body

    def submit(self, script: Path) -> tuple[str, ...]:
        return (self.program, "--parsable", str(script))

    def queue(self, number: str) -> tuple[str, ...]:
        return ("squeue", "--noheader", f"--jobs={number}", "--format=%T %r")

    def is_gone(self, words: str) -> bool:
        return "Invalid job id" in words

    def why(self, reason: str) -> str:
        if not reason or reason == "None":
            return "Slurm gives no reason yet"
        if reason in REASONS:
            return REASONS[reason]
        known = (text for start, text in REASONS.items() if reason.startswith((f"{start},", f"{start} ", f"{start}:")))
        return next(known, f"Slurm says: {reason}")

    def refused(self, lines: list[str]) -> str:
        words = lines[-1].removeprefix("sbatch: ").removeprefix("error: ")
        return next((f"{text} ({words})" for part, text in REFUSALS if part in words.lower()), words)

    def number(self, printed: str) -> str:
        return printed.strip().splitlines()[-1].split(";")[0] if printed.strip() else ""
