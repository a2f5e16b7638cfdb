"""Find out what results say: figures with intervals (`stats`), what each cell costs (`summary`) and why (`explain`).

In: stored trials. Out: summaries, verdicts, causes. Imported by the run (which stops when it is sure enough), the
report and the command line; imports the store, and the families of plug-ins for their names.
"""
