"""Draw the figures of the HTML report; each is a value with its data and one sentence that says what it shows.

In: a summary, runs and samples. Out: figures. Imported by `tare.report` only.
"""
