"""The process that we run in: its threads, and Ctrl-C."""
