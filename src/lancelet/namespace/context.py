"""Context for the requests of a namespace client, such as headers with a token."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["DynamicContextProvider"]


class DynamicContextProvider(ABC):
    """Tells the context of each operation before it is done.

    A folder needs no context, so that a directory namespace takes a provider and never asks it; programs that hand one to
    whatever namespace they have keep working.

    Examples
    --------
    >>> class Token(DynamicContextProvider):
    ...     def provide_context(self, info):
    ...         return {"headers.Authorization": "Bearer token of " + info["operation"]}
    >>> Token().provide_context({"operation": "list_tables", "object_id": "sales"})
    {'headers.Authorization': 'Bearer token of list_tables'}
    """

    @abstractmethod
    def provide_context(self, info: dict[str, str]) -> dict[str, str]:
        """Keys and values for one operation.

        Parameters
        ----------
        info
            ``operation``, such as ``list_tables``, and ``object_id``, the namespace or table that it is about.
        """
