"""Store a study's results crash-safely, one trial at a time, and read results folders, untrusted ones too.

In: trials and samples. Out: a folder of lines that are never changed, and the same trials, read back and validated.
Imported by workloads (what can be stored), summaries, the run and the command line; imports the model.
"""
