"""`tare bundle`: one archive that sets up a machine without a network.

`wheels` makes tare's own wheel and downloads the locked ones, `command` writes the archive, and `install` is the
program inside it.
"""
