#!/bin/sh
#SBATCH --job-name=tare-study
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=00:30:00
#SBATCH --array=1-6%1
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --output=/scratch/study.job/%A_%a.log
#SBATCH '--chdir=/home/me/two words'
# Written by `tare submit`: it runs a share of the study study, or resumes it.

# the number of an array is that of its last job too, and names all of them
job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
trials='/scratch/me'"'"'s/trials.jsonl'
measured() {
    sed '/"type":"Interrupted"/d' "$trials" 2> /dev/null | wc -l
}
field() {
    scontrol --oneliner show job "$job" 2> /dev/null | tr ' ' '\n' | sed -n "s/^$1=//p"
}
requeue() {
    echo "tare: $1; this job is queued again and will resume"
    exec scontrol requeue "$job"
}
before=$(measured)
preempted=$(field PreemptTime)
/usr/bin/python3 -m tare.cli.app run '/home/me/two words.yaml' --results '/scratch/me'"'"'s' &
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
if [ "$time_is_up" ] || [ $status -eq 6 ]; then
    if [ "$(measured)" -gt "$before" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
        requeue "the time limit has ended this allocation"
    fi
    echo "tare: a round does not fit into the time limit: submit the study again with a longer --time"
fi
case $status in
1 | 3) exit 0 ;; # the study's results, which the report states: nothing failed
*) exit $status ;;
esac
