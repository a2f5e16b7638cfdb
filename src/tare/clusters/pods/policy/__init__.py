"""Keep the pods of a study among themselves by a NetworkPolicy, and see whether the cluster enforces it."""
