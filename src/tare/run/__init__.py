"""Run a plan: rounds of pods, blocks of launches; judge each launch, prove its treatment and store a trial.

In: a plan, a store, a site. Out: trials in the store; progress for a watcher.
Imported by the command line; imports deployment, the launch, workloads, statistics and the store.
"""
