"""Compare results folders with each other, and follow cells over many of them in order of time.

In: results folders of other sites, days or versions. Out: what differs between them, ratios with verdicts, levels and
changes, as text, JSON and HTML. `claims` judges what publications claim.
Imported by the command line; imports the report's formats, summaries and statistics.
"""
