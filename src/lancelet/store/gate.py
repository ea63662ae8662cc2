"""The one gate to places that a table's own text names: base paths of its manifests, URIs of its blobs.

Whoever wrote the table chose these texts, and it may have been a stranger. So

- a limit, if there is one, is asked first (:mod:`lancelet.store.limit`);
- storage options go to the bucket that they were given for, and to no other: the others have theirs in
  ``base_store_params`` or ``base_<id>.<key>``;
- nobody looks for credentials of a cloud that the caller did not name. A bucket of the cloud in which the table is may be
  opened with those of the environment, if the table itself is.

Every opening is a line of the log ``lancelet.store.gate``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput, PathNotAllowed
from lancelet.store.limit import Limit, limit_options
from lancelet.store.location import FILE, MEMORY, parse_location
from lancelet.store.options import base_params, is_explicit, options_of_base, own_options
from lancelet.store.uri import like

if TYPE_CHECKING:
    from lancelet.store.base import Store
    from lancelet.store.location import Location

LOGGER = logging.getLogger(__name__)


def locate_referred(table: Store, text: str, where: str) -> Location:
    """The place that a text of a table names, if it may be opened.

    ``where`` says in errors which text it is.
    """
    limit = Limit.of(table.options)
    if limit is not None and "\\" in text:
        raise PathNotAllowed(text, f"{where} has a backslash, which a table with a limit may not have")
    location = parse_location(text)
    if location.has_dots:
        raise PathNotAllowed(text, f"{where} has dotted parts, which lead elsewhere in some stores")
    if limit is not None and not limit.allows(location):
        raise PathNotAllowed(
            text,
            f"{where} of {table.uri} lies outside of what is allowed ({limit}); if the table is to be trusted with "
            "it, add a prefix of it to allowed_prefixes (or LANCELET_ALLOWED_PREFIXES)",
        )
    return location


def open_referred(
    table: Store, location: Location, where: str, *, base_id: int = 0, named: Collection[str] = ()
) -> Store:
    """Open a folder that a table refers to, after :func:`locate_referred`.

    ``named`` are places that the caller has named in this very call, as the base paths of a new table.
    """
    options = _options(table, location, where, base_id, named)
    store = like(table, location, {**options, **limit_options(table.options)})
    LOGGER.debug("%s of %s: opening %s", where, table.uri, store.uri)
    return store


def _options(table: Store, location: Location, where: str, base_id: int, named: Collection[str]) -> dict[str, str]:
    if location.kind in (FILE, MEMORY):
        return {}
    given = _params(table, location)
    if given is not None:
        return given
    own = parse_location(table.uri)
    scoped = options_of_base(table.options, base_id)
    if location.same_store(own):
        return {**own_options(table.options), **scoped}
    if scoped or str(location) in named or _shares_environment(table, own, location):
        return scoped
    raise PathNotAllowed(
        str(location),
        f"{where} of {table.uri} leads to {location.root}, which has no storage options: those of the table are for its "
        f"own store, and credentials of the environment are for stores that you name. Name it by "
        f"base_store_params={{'{location.root}': {{...}}}}, with {{}} for the credentials of the environment",
    )


def _params(table: Store, location: Location) -> dict[str, str] | None:
    """The options that the caller gave for the place, or for the nearest folder above it."""
    found: tuple[int, dict[str, str]] | None = None
    for uri, options in base_params(table.options).items():
        try:
            above = parse_location(uri)
        except InvalidInput:
            continue
        if location.is_below(above) and (found is None or len(above.path) >= found[0]):
            found = len(above.path), options
    return None if found is None else dict(found[1])


def _shares_environment(table: Store, own: Location, location: Location) -> bool:
    """Whether the table's own store is opened with what the environment has for its cloud, and this is the same cloud."""
    if own.kind != location.kind or is_explicit(own.kind, table.options):
        return False
    # An account of Azure is a host of its own.
    return own.kind != "az" or own.authority.partition("@")[2] == location.authority.partition("@")[2]
