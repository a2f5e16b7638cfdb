#!/bin/sh
#PBS -N tare-study
#PBS -l select=2
#PBS -l place=scatter:excl
#PBS -l walltime=00:01:00
#PBS -r y
#PBS -j oe
#PBS -o /scratch/study.job/
#PBS -q short
#PBS -A physics
#PBS --licenses=scratch
# Written by `tare submit`: it runs a share of the study study, or resumes it.

cd '/home/me/two words' || exit
exec /usr/bin/python3 -m tare.cli.app run '/home/me/two words.yaml' --results '/scratch/me'"'"'s' --hosts "$(sort -u "$PBS_NODEFILE" | paste -sd,)"
