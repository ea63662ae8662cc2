"""Which versions and files nobody needs any more, and their removal."""
