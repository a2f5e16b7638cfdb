"""Decide which cells can run here, and give the reason of each "unavailable" one, before anything is started.

In: a study (`availability`), then the files of its plan (`preflight`). Out: a plan with reasons, cell by cell.
Imported by the command line; imports the plan, images and workloads.
"""
