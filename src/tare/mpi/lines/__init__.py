"""Launch lines as users write them: launchers, wrappers and containers, and where in them the program is.

`words` has the options of each of them, as data; `line` reads a line and puts a probe into it.
"""
