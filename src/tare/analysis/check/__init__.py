"""Say whether a job is set up right, from what each of its ranks sees and what its MPI answered (docs/check.md).

`facts` reads what the probe of each rank printed (kernels/check), `rules` has a row for each thing that can be wrong,
`judge` applies them. Pure.
"""
