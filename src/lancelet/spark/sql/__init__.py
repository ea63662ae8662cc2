"""Spark SQL: what the Java classes below ``jvm/`` ask Python, and its answers."""
