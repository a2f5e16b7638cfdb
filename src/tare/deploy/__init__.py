"""Make an environment on the nodes of a site: images, pods, their network, their containers, the hosts that MPI sees.

In: a site, an environment, a placement. Out: `Deployed`, a context that takes everything down again.
Imported by feasibility, the run and the command line; imports every family of plug-ins.
"""
