"""Expand a study to the cells that are compared: combinations, which of them make sense, and their order.

In: a study of the model. Out: a plan, its estimated time, and the access to this machine that it grants.
Imported by deployment, the run, the report and the command line; imports the plug-ins' descriptions.
"""
