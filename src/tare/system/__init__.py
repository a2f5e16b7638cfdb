"""Access the host for all other packages: processes, namespaces, third-party files, folders, CPUs, devices.

`node` is a node and what limits its processes, `counters` what a launch did to it.
In: argv, paths, process numbers. Out: results of commands, facts of the machine, errors that name what is missing.
Imported by everything above the model; imports only the model and the errors.
"""
