"""From a study to the cells that are compared: combinations, their order, and why some cannot be.

In: a study of the model. Out: a plan, its estimated time, what it is granted of this machine.
Imported by deployment, the run, the report and the command line; imports the plug-ins' descriptions.
"""
