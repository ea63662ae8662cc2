"""Errors of tables as the errors of a namespace, which clients know by their codes.

==============================  ==================================
raised by a table               told to the client
==============================  ==================================
``TableNotFound``               4 ``TableNotFoundError``
``VersionNotFound``             11 ``TableVersionNotFoundError``
``IndexNotFound``               6 ``TableIndexNotFoundError``
``UnknownColumn``               12 ``TableColumnNotFoundError``
``UnfitData``                   20 ``TableSchemaValidationError``
``CommitConflict``              14 ``ConcurrentModificationError``
``NotSupported``                0 ``UnsupportedOperationError``
``InvalidInput``                13 ``InvalidInputError``
everything else of lancelet     18 ``InternalError``
==============================  ==================================

What a tag or branch that is missing, or there already, becomes is for the caller to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lance_namespace import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    LanceNamespaceError,
    TableColumnNotFoundError,
    TableIndexNotFoundError,
    TableNotFoundError,
    TableSchemaValidationError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)

from lancelet import errors

_CODES: tuple[tuple[type[errors.LanceletError], type[LanceNamespaceError]], ...] = (
    (errors.TableNotFound, TableNotFoundError),
    (errors.VersionNotFound, TableVersionNotFoundError),
    (errors.IndexNotFound, TableIndexNotFoundError),
    (errors.UnknownColumn, TableColumnNotFoundError),
    (errors.UnfitData, TableSchemaValidationError),
    (errors.CommitConflict, ConcurrentModificationError),
    (errors.NotSupported, UnsupportedOperationError),
    (errors.NotFound, InvalidInputError),
    (errors.RefConflict, InvalidInputError),
    (errors.InvalidInput, InvalidInputError),
)


@contextmanager
def translated(
    what: str,
    *,
    not_found: type[LanceNamespaceError] = InvalidInputError,
    exists: type[LanceNamespaceError] = InvalidInputError,
) -> Iterator[None]:
    """Tell what happened to ``what`` in the namespace's errors.

    Parameters
    ----------
    what
        The table or namespace, for the text.
    not_found, exists
        What a tag or branch becomes that is not there, or that is there already.
    """
    try:
        yield
    except errors.RefNotFound as error:
        raise not_found(f"{what}: {error}") from error
    except errors.RefConflict as error:
        raise exists(f"{what}: {error}") from error
    except errors.LanceletError as error:
        kind = next((theirs for ours, theirs in _CODES if isinstance(error, ours)), InternalError)
        raise kind(f"{what}: {error}") from error
