"""Access the host for all other packages: processes, namespaces, third-party files, folders, CPUs, devices.

In: argv, paths, process numbers. Out: results of commands, facts of the machine, errors that name what is missing.
Imported by everything above the model; imports only the model and the errors.
"""
