"""The package of requests and errors that all namespaces speak. It is only loaded by those who have one."""

from __future__ import annotations

from typing import Any

from lancelet.errors import InvalidType, MissingPackage

PACKAGE = "namespaces need the package lance-namespace: pip install 'lancelet[namespace]'"


def load_models() -> Any:
    """The module ``lance_namespace``."""
    try:
        import lance_namespace
    except ImportError as error:
        raise MissingPackage(PACKAGE) from error
    return lance_namespace


def models_for(client: object) -> Any:
    """The module ``lance_namespace``, for a client that is one of its namespaces."""
    models = load_models()
    if not isinstance(client, models.LanceNamespace):
        raise InvalidType(f"namespace_client is a LanceNamespace, not {type(client)}")
    return models
