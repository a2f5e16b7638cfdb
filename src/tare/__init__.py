"""Measure, explain, predict and remove what a container costs an MPI program.

The packages, in the order in which a study travels:

study          read a study file           plan           expand it to cells
feasibility    which cells can run, and why not the others
cluster        open the nodes              node_service   what is done on one node
deploy         make an environment on the nodes, from networks (parts: wiring),
               runtimes (parts: containers), services (daemons) and images
mpi, launch    the command line of a job, and how ranks are started
workloads      what runs, and how its output becomes metrics
run            rounds, launches, proof     store          keep results
stats, summary intervals and verdicts      report         show them
cli            the commands

Below all: node, host, model (data without I/O), errors. docs/architecture.md walks one launch through them.
"""

__version__ = "0.2.0"
