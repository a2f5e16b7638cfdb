#!/bin/sh
#PBS -N tare-study
#PBS -l select=2
#PBS -l place=scatter:excl
#PBS -l walltime=00:30:00
#PBS -r y
#PBS -j oe
#PBS -o /scratch/study.job/
#PBS -J 1-6%1
# Written by `tare submit`: it runs a share of the study study, or resumes it.

cd '/home/me/two words' || exit
exec /usr/bin/python3 -m tare.cli.app run '/home/me/two words.yaml' --results '/scratch/me'"'"'s' --hosts "$(sort -u "$PBS_NODEFILE" | paste -sd,)"
