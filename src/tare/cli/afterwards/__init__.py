"""The commands that read results: report, explain, compare, history, claims."""
