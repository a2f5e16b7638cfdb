"""Figures of the HTML report: each is drawn as SVG, and has a sentence that states what it shows.

In: a summary, runs and samples. Out: figures. Imported by `tare.report` only.
"""
