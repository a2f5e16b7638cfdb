"""The commands of `tare`: read arguments, call the packages below, print, and return an exit code.

In: the command line. Out: text, files and an exit code (docs/errors.md). Nothing imports this package.
`doctor` says what this machine can run, `batch` puts a study into a job.
"""
