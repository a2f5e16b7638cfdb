"""Deploy an environment on a site's nodes: pods, their network, their containers, the MPI's hosts.

In: a site, an environment, a placement. Out: `Deployed`, a context manager that removes everything again.
Imported by the run and the command line; imports every family of plug-ins.
"""
