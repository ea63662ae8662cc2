"""On the path of the Python processes in which Spark plans, and of no others."""
