"""Inspect and unpack images. Every image is hostile: no link in it leads outside, nothing in it is started.

In: archives and root file systems. Out: their contents: the MPI, the C library, variables, libraries of a program.
Imported by `tare.images`, the launch's checks and feasibility; imports the host.
"""
