"""Keep the results of a study so that no kill loses more than the running trial, and read those of others safely.

In: trials and samples. Out: a folder of lines that are never changed, and the same trials read back and checked.
Imported by workloads (what can be stored), summaries, the run and the command line; imports the model.
"""
