#!/bin/sh
#BSUB -J "tare-study[1-1]%1"
#BSUB -nnodes 2
#BSUB -x
#BSUB -W 00:01
#BSUB -r
#BSUB -o /scratch/study.job/%J_%I.log
#BSUB -q short
#BSUB -P physics
#BSUB --licenses=scratch
# Written by `tare submit`: it runs a share of the study study, or resumes it.

cd '/home/me/two words' || exit
exec /usr/bin/python3 -m tare.cli.app run '/home/me/two words.yaml' --results '/scratch/me'"'"'s' --hosts "$(sort -u "$LSB_DJOB_HOSTFILE" | paste -sd,)"
