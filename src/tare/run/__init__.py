"""Run a plan: rounds of pods, blocks of launches in turns, each judged, proven and stored.

In: a plan, a store, a site. Out: trials in the store; progress for whoever watches.
Imported by the command line; imports deployment, the launch, workloads, statistics and the store.
"""
