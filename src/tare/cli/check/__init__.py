"""`tare check`: start a probe in the user's own launch line, and say whether the job is set up right."""
