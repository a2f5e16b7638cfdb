#!/bin/sh
# flux: --job-name=tare-study
# flux: --nodes=2
# flux: --exclusive
# flux: --time-limit=1m
# flux: '--output=/scratch/study.job/{{id}}.log'
# flux: '--cwd=/home/me/two words'
# flux: --queue=short
# flux: --bank=physics
# flux: --licenses=scratch
# Written by `tare submit`: it runs a share of the study study, or resumes it.

exec /usr/bin/python3 -m tare.cli.app run '/home/me/two words.yaml' --results '/scratch/me'"'"'s' --hosts "$(flux resource list --states=all --no-header --format='{nodelist}' | flux hostlist --expand --delimiter=, -)"
