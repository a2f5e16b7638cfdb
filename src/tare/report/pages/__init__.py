"""The pages of the HTML report behind its first screen: one for each workload, and one for each environment.

In: tables of `tare.report.view`, a summary and runs. Out: what the template shows. Imported by `tare.report` only.
"""
