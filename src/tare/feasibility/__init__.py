"""Check, before anything is started, whether the cells of a plan can run here, and give the reason if not.

In: a plan, its files, images and programs. Out: reasons, cell by cell; nothing is created and nothing is launched.
Imported by the command line; imports the plan, images, workloads and deployment's files.
"""
