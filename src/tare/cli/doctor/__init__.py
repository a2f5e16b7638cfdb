"""Tell what a machine can run and what is missing, and how an MPI finds its ranks there: `tare doctor`."""
