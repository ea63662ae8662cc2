"""Namespaces over HTTP, as the ``lance-namespace`` REST specification has them: a client, and a server for any namespace."""
