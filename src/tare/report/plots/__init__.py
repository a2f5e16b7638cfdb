"""Plots of the HTML report: each has its data for plotly.js, and a sentence that states what it shows.

In: a summary, runs and samples. Out: figures. Imported by `tare.report` only.
"""
