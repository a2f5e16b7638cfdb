"""Measure, explain, predict and remove what a container costs an MPI job."""

__version__ = "0.1.0"
