"""Run a plan: rounds of pods, blocks of launches; judge each launch, prove its treatment and store a trial.

`deploy` makes the environments on the nodes, `trace` follows launches in the kernel.
In: a plan, a store, a site. Out: trials in the store; progress for a watcher.
Imported by the command line; imports the launch, workloads, statistics and the store.
"""
