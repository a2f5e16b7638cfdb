"""Look into images and unpack them. Every image is hostile: no link in it leads outside, nothing of it is started.

In: archives and root file systems. Out: what they hold: the MPI, the C library, variables, libraries of a program.
Imported by `tare.images`, the launch's checks and feasibility; imports the machine.
"""
